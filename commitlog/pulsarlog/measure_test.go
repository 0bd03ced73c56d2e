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
	var at []int64     // of each batch
	records := []int{} // of each
	add := func(n int) {
		recs := make([]commitlog.Record, n)
		for i := range recs {
			recs[i].Value = make([]byte, value)
		}
		first, err := topic.Append(t.Context(), 0, recs, nil)
		if err != nil {
			t.Fatal(err)
		}
		at, records = append(at, first), append(records, n)
	}
	want := func(from int, near float64) {
		t.Helper()
		stretches, ok, err := topic.Measure(t.Context(), 0)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		b, err := topic.Bounds(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		found, bytes, last := 0.0, 0.0, b.First
		for _, s := range stretches {
			if s.From < last || s.Until <= s.From || s.Until > b.Next {
				t.Errorf("%+v stands behind %d, in a partition up to %d", s, last, b.Next)
			}
			found, bytes, last = found+s.Records, bytes+s.Bytes, s.Until
		}
		n := 0.0
		for _, r := range records[from:] {
			n += float64(r)
		}
		if math.Abs(found-n) > near*n+0.01 || bytes < n*value || bytes > 1.2*n*value {
			t.Errorf("%d batches from the %d. on: %+v; expected %v records, and their bytes", len(at), from, stretches, n)
		}
	}
	want(0, 0)
	for range 4 {
		add(batch)
	}
	want(0, 0)
	if err := a.unload(t.Context(), partitionName("t", 0)); err != nil { // a new ledger
		t.Fatal(err)
	}
	for range 2 {
		add(batch)
	}
	want(0, 0)
	if err := topic.Trim(t.Context(), 0, at[2]); err != nil {
		t.Fatal(err)
	}
	want(2, 0)
	add(1) // entries are not alike any more
	add(3 * batch)
	want(2, 0.1)
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
