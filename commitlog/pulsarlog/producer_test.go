package pulsarlog

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A producer's sequence numbers are Pulsar's: an append that is repeated is stored once, also by
// a process that remembers nothing.
func TestARepeatedSequenceIsStoredOnceOverProcesses(t *testing.T) {
	t.Parallel()
	open := store(t)
	var want []string
	for run := range 3 {
		l := open()
		if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		topic, err := l.Topic(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		send := func(sequence int64) (int64, error) {
			value := fmt.Append(nil, sequence)
			return topic.Append(t.Context(), 0, []commitlog.Record{{Value: value}, {Value: value}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 7, Epoch: int32(run), Sequence: sequence}})
		}
		for n := max(0, int64(2*run-2)); n < int64(2*run+2); n++ { // the first two once more
			first, err := send(n)
			if err != nil {
				t.Fatalf("run %d, sequence %d: %v", run, n, err)
			}
			again, err := send(n)
			if err != nil || again != first {
				t.Errorf("run %d, sequence %d again: %d, %v; want %d", run, n, again, err, first)
			}
		}
		if _, err := send(int64(2*run + 9)); !errors.Is(err, fault.Invalid) {
			t.Errorf("a gap: %v", err)
		}
		want = append(want, fmt.Sprint(2*run), fmt.Sprint(2*run), fmt.Sprint(2*run+1), fmt.Sprint(2*run+1))
		if run == 2 {
			var got []string
			for r := topic.NewReader(0, 0, nil); len(got) < len(want); {
				recs, err := r.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, rec := range recs {
					got = append(got, string(rec.Value))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("stored %v; want %v", got, want)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
