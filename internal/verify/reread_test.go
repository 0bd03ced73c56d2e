package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
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
	c.produce(t, 20)
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

// produce stores records, and the history of it.
func (c *crew) produce(t *testing.T, records int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(c.dir, "p-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := history.NewWriter(f)
	for n := range records {
		m := ringfence.Message{Key: []byte{byte('a' + n%5)}, Value: value("k", n+1, 100)}
		at, err := c.rf.Produce(t.Context(), "t", m)
		if err != nil {
			t.Fatal(err)
		}
		e := history.Event{Kind: history.Produced, At: n, Partition: at.Partition, Offset: at.Offset, Value: harness.Fingerprint(m.Key, m.Value)}
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
}

// Retention goes on while records are read: what it takes then is not lost.
func TestRereadExcusesWhatRetentionTakesMeanwhile(t *testing.T) {
	t.Parallel()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	if err := rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 3, RetentionAgeMS: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	c := &crew{rf: rf, dir: t.TempDir(), topic: "t"}
	c.produce(t, 2000)
	taken := false
	report, err := c.reread(t.Context(), true, func() error {
		if taken {
			return nil
		}
		taken = true
		_, err := rf.Admin().AlterTopic(t.Context(), "t", api.Retention{Bytes: 1}, nil)
		return err
	})
	if err != nil || report.Err() != nil || !taken {
		t.Errorf("%v, %v, retention took records: %t", report, err, taken)
	}
}

// A connection that is cut as the records are read again ends no run; a store that stays away does.
func TestAskedAsksAgainWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for away, want := range map[time.Duration]error{time.Second: nil, time.Hour: fault.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			back := time.Now().Add(away)
			n, err := asked(t.Context(), func(context.Context) (int, error) {
				if time.Now().Before(back) {
					return 0, fault.Unavailable
				}
				return 5, nil
			})
			if !errors.Is(err, want) || (err == nil) != (n == 5) {
				t.Errorf("away for %s: %d, %v", away, n, err)
			}
		})
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
