package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// A bit that flips in a record that every consumer is past meets nothing but this.
func TestRereadNamesDamageAtRest(t *testing.T) {
	t.Parallel()
	c := &crew{dir: t.TempDir(), topic: "t"}
	data := t.TempDir()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c.rf = rf
	f, err := os.Create(filepath.Join(c.dir, "p-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := history.NewWriter(f)
	for n := range int64(20) {
		m := ringfence.Message{Key: []byte{byte('a' + n%5)}, Value: value("k", n+1, 100)}
		at, err := rf.Produce(t.Context(), "t", m)
		if err != nil {
			t.Fatal(err)
		}
		e := history.Event{Kind: history.Produced, At: n, Partition: at.Partition, Offset: at.Offset, Value: harness.Fingerprint(m.Key, m.Value)}
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	judge := func() *history.Report {
		t.Helper()
		report, err := c.reread(t.Context(), false, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if r := judge(); r.Err() != nil || r.Produced != 20 {
		t.Errorf("nothing is damaged: %v", r)
	}
	flipIn(t, data, "11 k ")
	r := judge()
	if r.Violated != 1 || r.Broken[history.ReadAgain] != 1 || !strings.Contains(r.Violations[0].Detail, ".seg") {
		t.Errorf("one record is damaged: %v; expected it to be named with its file", r)
	}
}

// flipIn flips a bit of the first record whose value begins so.
func flipIn(t *testing.T, data, text string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(data, "log/topics/*/*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	for _, s := range segments {
		b, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(b), text)
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(s, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no record %q", text)
}
