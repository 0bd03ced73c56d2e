package topic_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

func sequence(id uint64, n int64) *commitlog.AppendOptions {
	return &commitlog.AppendOptions{Producer: commitlog.Producer{ID: id, Sequence: n}}
}

// A producer that does not know whether a message was stored sends it again: it must not be stored
// twice, wherever the first one went.
func TestAMessageSentAgainAfterASwitchIsStoredOnce(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	tp := open(t, s.catalog, "a")
	send := func(n int) topic.Position {
		t.Helper()
		r := rec(0, n)
		at, err := tp.Produce(t.Context(), r.Key, topic.AnyPartition, []commitlog.Record{r}, sequence(7, int64(n)))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for n := range 5 {
		send(n)
	}
	grow(t, s.catalog, "a", 4)
	if at := send(4); at.Storage != 0 || at.Offset != 4 {
		t.Errorf("before the switch noticed: again at %+v; expected where it is", at)
	}
	fifth := send(5)
	if fifth.Storage != 1 || fifth.Offset != 0 {
		t.Errorf("the first after the switch is at %+v", fifth)
	}
	if at := send(4); at.Storage != 0 || at.Offset != 4 {
		t.Errorf("after the switch: again at %+v; expected where it is", at)
	}
	if at := send(5); at != fifth {
		t.Errorf("again at %+v; expected %+v", at, fifth)
	}
	sixth := send(6)
	grow(t, s.catalog, "a", 8)
	if at := send(6); at != sixth {
		t.Errorf("again at %+v; expected %+v", at, sixth)
	}
	send(7)
	if got := values(t, tp)["k0"]; !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("stored: %v", got)
	}
}

// A window of numbered messages that a switch refuses goes on to the next storage topic as a whole.
func TestAWindowOfNumberedMessagesSurvivesSwitches(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	tp, other := open(t, s.catalog, "a"), topic.NewCatalog(s.log, s.reg, "")
	const messages = 2000
	var acks sync.WaitGroup
	var want []int
	for n := range messages {
		acks.Add(1)
		want = append(want, n)
		partition := 1
		tp.ProduceAsync(t.Context(), partition, rec(0, n), sequence(9, int64(n)), func(_ topic.Position, err error) {
			if err != nil {
				t.Error(err)
			}
			acks.Done()
		})
		if n == messages/3 || n == messages/2 {
			grow(t, other, "a", 4)
		}
	}
	acks.Wait()
	if got := values(t, tp)["k0"]; !slices.Equal(got, want) {
		t.Errorf("%d messages are stored of %d, in order: %v", len(got), messages, slices.IsSorted(got))
	}
}
