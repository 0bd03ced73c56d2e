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
		tp, err := l.Topic(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		send := func(sequence int64) (int64, error) {
			value := fmt.Append(nil, sequence)
			return tp.Append(t.Context(), 0, []commitlog.Record{{Value: value}, {Value: value}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 7, Epoch: int32(run), Sequence: sequence}})
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
			for r := tp.NewReader(0, 0, nil); len(got) < len(want); {
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

// Whoever sends again what it has no answer to, after a switch and in another process, is told whether
// the sealed partition has it: what is called absent is sent to the next storage topic.
func TestASealedPartitionTellsAnybodyWhatItHas(t *testing.T) {
	t.Parallel()
	open := store(t)
	reopen := func() *commitlog.Topic {
		l := open()
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		tp, err := l.Topic(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	send := func(tp *commitlog.Topic, partition int, id uint64, sequence int64) (int64, error) {
		value := fmt.Append(nil, sequence)
		return tp.Append(t.Context(), partition, []commitlog.Record{{Value: value}, {Value: value}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: id, Sequence: sequence}})
	}
	const appends = 12
	tp := reopen()
	var firsts []int64
	for n := range int64(appends) {
		first, err := send(tp, 0, 7, n)
		if err != nil {
			t.Fatal(err)
		}
		firsts = append(firsts, first)
	}
	if _, err := send(tp, 0, 8, 0); err != nil {
		t.Fatal(err)
	}
	ends, err := tp.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	orders := [][]int64{{appends - 1, appends - 2, 0}, {0, 5, appends - 1}}
	for _, order := range orders {
		tp = reopen()
		for _, n := range order {
			first, err := send(tp, 0, 7, n)
			if old := n < appends-commitlog.ProducerWindow; err != nil || first != firsts[n] && !(old && first == -1) {
				t.Errorf("sequence %d again: %d, %v; want %d", n, first, err, firsts[n])
			}
		}
		for _, absent := range []struct {
			partition int
			id        uint64
			sequence  int64
		}{{0, 7, appends}, {0, 7, appends + 1}, {0, 8, 1}, {0, 9, 0}, {1, 7, 0}} {
			if first, err := send(tp, absent.partition, absent.id, absent.sequence); !errors.Is(err, fault.Sealed) {
				t.Errorf("%+v, which is not there: %d, %v; want Sealed", absent, first, err)
			}
		}
	}
	if err := tp.Trim(t.Context(), 0, firsts[appends-1]); err != nil {
		t.Fatal(err)
	}
	tp = reopen()
	if first, err := send(tp, 0, 7, 0); err != nil || first != -1 {
		t.Errorf("what retention dropped of a producer that is known: %d, %v; want -1", first, err)
	}
	if first, err := send(tp, 0, 7, appends); !errors.Is(err, fault.Sealed) {
		t.Errorf("what a producer that is known has not: %d, %v; want Sealed", first, err)
	}
	if first, err := send(tp, 0, 9, 0); !errors.Is(err, fault.Forgotten) {
		t.Errorf("of a producer that nothing is left of: %d, %v; want Forgotten", first, err)
	}
	if b, err := tp.Bounds(t.Context(), 0); err != nil || b.Next != ends[0] {
		t.Errorf("the end moved from %d to %+v, %v", ends[0], b, err)
	}
}
