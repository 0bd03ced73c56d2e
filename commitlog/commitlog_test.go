package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

func TestNamesThatAreNoTopicNames(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	for _, name := range []string{"", ".", "..", ".a", "-a", "_a", "a/b", "../a", "a b", "ä", "a\x00", "a\n", strings.Repeat("x", commitlog.MaxNameBytes+1), strings.Repeat("x", 300)} {
		_, err := log.Topic(t.Context(), name)
		for what, err := range map[string]error{
			"create": log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}),
			"delete": log.DeleteTopic(t.Context(), name),
			"open":   err,
		} {
			if !errors.Is(err, commitlog.ErrInvalid) {
				t.Errorf("%s %.20q: %v; want ErrInvalid", what, name, err)
			}
		}
	}
	for _, name := range []string{"a", "0", "A.b_c-9", strings.Repeat("x", commitlog.MaxNameBytes)} {
		if err := commitlog.CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

func TestCreateTopicReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	err := memlog.New().CreateTopic(t.Context(), commitlog.TopicConfig{Name: "..", Partitions: -1, RetentionBytes: -1})
	if !errors.Is(err, commitlog.ErrInvalid) || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three faults are reported as: %v", err)
	}
}

func newTopic(t *testing.T, log *commitlog.Log) *commitlog.Topic {
	t.Helper()
	if err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func add(t *testing.T, topic *commitlog.Topic, values ...string) int64 {
	t.Helper()
	recs := make([]commitlog.Record, len(values))
	for i, v := range values {
		recs[i].Value = []byte(v)
	}
	first, err := topic.Append(t.Context(), 0, recs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func TestReaderSkipsNothingByItself(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, memlog.New())
	add(t, topic, "a", "b", "c")
	if err := topic.Trim(t.Context(), 0, 2); err != nil {
		t.Fatal(err)
	}
	r := topic.NewReader(0, 0, nil)
	for range 2 {
		_, err := r.Next(t.Context())
		var out *commitlog.OutOfRangeError
		if !errors.As(err, &out) || out.First != 2 {
			t.Fatalf("next after a trim: %v; want an OutOfRangeError that names offset 2", err)
		}
	}
	r.SetOffset(2)
	if recs, err := r.Next(t.Context()); err != nil || string(recs[0].Value) != "c" {
		t.Errorf("after SetOffset: %v, %v", recs, err)
	}
}

func TestReaderReusesMemoryOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, memlog.New())
	for i := range 50 {
		add(t, topic, fmt.Sprintf("%02d", i))
	}
	read := func(reuse bool) (first string) {
		r := topic.NewReader(0, 0, &commitlog.ReaderOptions{MaxBytes: 6, Reuse: reuse})
		var kept []commitlog.Record
		for i := 0; i < 50; {
			recs, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs {
				if string(rec.Value) != fmt.Sprintf("%02d", i) {
					t.Fatalf("record %d is %q", i, rec.Value)
				}
				i++
			}
			if kept == nil {
				kept = recs
			}
		}
		return string(kept[0].Value)
	}
	if got := read(false); got != "00" {
		t.Errorf("without Reuse the first record became %q", got)
	}
	if got := read(true); got == "00" {
		t.Error("with Reuse the memory of the first records was not used again")
	}
}

// A damaged place: what is sound before it comes first, then the error, each time.
func TestReaderReturnsSoundRecordsBeforeDamage(t *testing.T) {
	t.Parallel()
	log := commitlog.New(damagedLog{memlog.NewStore(nil).Driver()})
	topic := newTopic(t, log)
	add(t, topic, "a", "b", "c")
	r := topic.NewReader(0, 0, nil)
	recs, err := r.Next(t.Context())
	if err != nil || len(recs) != 2 {
		t.Fatalf("records before the damage: %v, %v", recs, err)
	}
	for range 2 {
		var damage *commitlog.CorruptError
		if _, err := r.Next(t.Context()); !errors.As(err, &damage) || !errors.Is(err, commitlog.ErrCorrupt) || damage.Offset != 2 {
			t.Fatalf("at the damage: %v", err)
		}
	}
	if r.Offset() != 2 {
		t.Errorf("the reader stands at %d; want 2", r.Offset())
	}
}

// damagedLog has a damaged record at offset 2.
type damagedLog struct{ driver.Log }

func (l damagedLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return damagedTopic{t}, err
}

type damagedTopic struct{ driver.Topic }

func (t damagedTopic) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	recs, next, err := t.Topic.Read(ctx, req, dst)
	for i, r := range recs {
		if r.Offset >= 2 {
			return recs[:i], 2, &driver.CorruptError{Topic: "t", Offset: 2, Resume: 3, Detail: "test"}
		}
	}
	return recs, next, err
}

// When the context ends first, nobody knows what becomes of the batch. The caller may use its memory
// for something else, while the batch is still to be sent.
func TestAppendWhoseContextEndsIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := make(chan *driver.AppendRequest, 1)
		topic := newTopic(t, commitlog.New(stuckLog{memlog.NewStore(nil).Driver(), kept}))
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		mine := []commitlog.Record{{Key: []byte("k"), Value: []byte("x"), Headers: []commitlog.Header{{Name: "n", Value: []byte("h")}}}}
		go func() {
			_, err := topic.Append(ctx, 0, mine, nil)
			got <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) || !errors.Is(err, commitlog.ErrUnknown) {
			t.Errorf("append whose context ended: %v; want ErrUnknown", err)
		}
		mine[0].Key[0], mine[0].Value[0], mine[0].Headers[0].Value[0], mine[0].Headers[0].Name = '!', '!', '!', "!"
		if r := (<-kept).Records[0]; string(r.Key) != "k" || string(r.Value) != "x" || r.Headers[0].Name != "n" || string(r.Headers[0].Value) != "h" {
			t.Errorf("the driver still has %+v; expected what was appended", r)
		}
	})
}

// stuckLog takes appends and never answers.
type stuckLog struct {
	driver.Log
	kept chan *driver.AppendRequest
}

func (l stuckLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return stuckTopic{t, l.kept}, err
}

type stuckTopic struct {
	driver.Topic
	kept chan *driver.AppendRequest
}

func (t stuckTopic) Append(_ context.Context, req *driver.AppendRequest, _ func(int64, error)) {
	t.kept <- req
}
