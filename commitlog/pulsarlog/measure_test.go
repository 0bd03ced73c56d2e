package pulsarlog

import (
	"math"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
)

// Where ledgers end, where something was trimmed, and how many records an entry has is known without a
// reader, which takes its time.
func TestAPartitionIsMeasuredByWhatTheBrokerTells(t *testing.T) {
	t.Parallel()
	const value, batch = 1000, 10
	l, a := opened(t, retainEvery)
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var at []int64 // of each batch
	add := func() {
		recs := make([]commitlog.Record, batch)
		for i := range recs {
			recs[i].Value = make([]byte, value)
		}
		first, err := topic.Append(t.Context(), 0, recs, nil)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, first)
	}
	want := func(from int) {
		t.Helper()
		stretches, ok, err := topic.Measure(t.Context(), 0)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		b, err := topic.Bounds(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		records, bytes, last := 0.0, 0.0, b.First
		for _, s := range stretches {
			if s.From < last || s.Until <= s.From || s.Until > b.Next {
				t.Errorf("%+v stands behind %d, in a partition up to %d", s, last, b.Next)
			}
			records, bytes, last = records+s.Records, bytes+s.Bytes, s.Until
		}
		n := float64(batch * (len(at) - from))
		if math.Abs(records-n) > 0.01 || bytes < n*value || bytes > 1.2*n*value {
			t.Errorf("%d batches from the %d. on: %+v; expected %v records, and their bytes", len(at), from, stretches, n)
		}
	}
	want(0)
	for range 4 {
		add()
	}
	want(0)
	if err := a.unload(t.Context(), partitionName("t", 0)); err != nil { // a new ledger
		t.Fatal(err)
	}
	for range 2 {
		add()
	}
	want(0)
	if err := topic.Trim(t.Context(), 0, at[2]); err != nil {
		t.Fatal(err)
	}
	want(2)
	if _, err := topic.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	stretches, _, err := topic.Measure(t.Context(), 0)
	if err != nil || len(stretches) != 2 {
		t.Errorf("sealed: %+v, %v; expected two ledgers", stretches, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
