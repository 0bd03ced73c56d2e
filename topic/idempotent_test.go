package topic_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
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

// A window of numbered messages that a switch refuses goes on to the next storage topic as a whole. A
// log refuses the first as sealed, and finds that the others leave a gap. What comes meanwhile goes
// with them, wherever it is on its way.
func TestAWindowOfNumberedMessagesSurvivesSwitches(t *testing.T) {
	t.Parallel()
	for log, seeds := range map[string]uint64{"memory": 10, "late": 20, "disk": 10} {
		for seed := range seeds {
			t.Run(fmt.Sprint(log, seed), func(t *testing.T) {
				t.Parallel()
				s, r := newSetup(t), rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
				c := s.catalog
				switch log {
				case "late":
					late := &lossyLog{Log: memlog.NewStore(nil).Driver(), rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test
					c = topic.NewCatalog(commitlog.New(late), s.reg, "")
				case "disk":
					c = onDisk(t, s, t.TempDir())
				}
				windowOverSwitches(t, c, r)
			})
		}
	}
}

func windowOverSwitches(t *testing.T, c *topic.Catalog, r *rand.Rand) {
	create(t, c, "a", topic.Config{Partitions: 2})
	tp := open(t, c, "a")
	const messages, keys = 2000, 3
	var acks, switches sync.WaitGroup
	var want [keys][]int
	partitions := 2
	at := []int{messages / 3, messages / 2}
	for range r.IntN(3) {
		at = append(at, r.IntN(messages))
	}
	for n := range messages {
		k := r.IntN(keys)
		want[k] = append(want[k], n)
		acks.Add(1)
		tp.ProduceAsync(t.Context(), 1, rec(k, n), sequence(9, int64(n)), func(_ topic.Position, err error) {
			if err != nil {
				t.Error(n, err)
			}
			acks.Done()
		})
		if slices.Contains(at, n) {
			switches.Wait()
			partitions *= 1 + r.IntN(2)
			switches.Go(func() { grow(t, c, "a", partitions) })
			if r.IntN(2) == 0 {
				switches.Wait()
			}
		}
	}
	acks.Wait()
	switches.Wait()
	if err := tp.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := values(t, tp)
	for k := range want {
		if got := got[fmt.Sprint("k", k)]; !slices.Equal(got, want[k]) {
			t.Errorf("key %d: %d messages are stored of %d, in order: %v", k, len(got), len(want[k]), slices.IsSorted(got))
		}
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// sendNumbered sends the number n of producer 7 and waits.
func sendNumbered(t *testing.T, tp *topic.Topic, n int) topic.Position {
	t.Helper()
	r := rec(0, n)
	at, err := tp.Produce(t.Context(), r.Key, topic.AnyPartition, []commitlog.Record{r}, sequence(7, int64(n)))
	if err != nil {
		t.Fatalf("sequence %d: %v", n, err)
	}
	return at
}

// What an outage kept from being appended is sent again after a switch: the old storage topic has a
// gap there and refuses all but the first for it.
func TestWhatWasNotAppendedBeforeASwitchIsSentAgainInOrder(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []bool{false, true} {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 1})
		tp := open(t, s.catalog, "a")
		sendNumbered(t, tp, 0)
		for n := 1; n < 20; n++ {
			tp.ProduceAsync(canceled(t), topic.AnyPartition, rec(0, n), sequence(7, int64(n)), func(_ topic.Position, err error) {
				if !errors.Is(err, fault.NotDone) {
					t.Errorf("%v; expected NotDone", err)
				}
			})
		}
		grow(t, s.catalog, "a", 2)
		if err := tp.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		var acks sync.WaitGroup
		for n := 1; n < 25; n++ {
			if !pipelined {
				sendNumbered(t, tp, n)
				continue
			}
			acks.Add(1)
			tp.ProduceAsync(t.Context(), topic.AnyPartition, rec(0, n), sequence(7, int64(n)), func(_ topic.Position, err error) {
				if err != nil {
					t.Error(n, err)
				}
				acks.Done()
			})
		}
		acks.Wait()
		if got := values(t, tp)["k0"]; !slices.IsSorted(got) || len(got) != 25 {
			t.Errorf("pipelined %v: stored: %v", pipelined, got)
		}
	}
}

// A producer may have many messages under way when their answers get lost, and sends all of them again.
func TestManyMessagesSentAgainAreStoredOnce(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 1})
	tp := open(t, s.catalog, "a")
	for n := range 10 {
		sendNumbered(t, tp, n)
	}
	grow(t, s.catalog, "a", 2)
	for range 2 {
		for n := 5; n < 110; n++ {
			sendNumbered(t, tp, n)
		}
	}
	if at := sendNumbered(t, tp, 10); at.Offset != -1 {
		t.Errorf("long answered: %+v; expected that nobody remembers where", at)
	}
	if at := sendNumbered(t, tp, 109); at.Storage != 1 || at.Offset != 99 {
		t.Errorf("again at %+v; expected where it is", at)
	}
	if got := values(t, tp)["k0"]; len(got) != 110 || !slices.IsSorted(got) {
		t.Errorf("%d records are stored of 110 sequences: %v", len(got), got)
	}
	for _, n := range []int64{111, -1} { // 110 is next
		if _, err := tp.Produce(t.Context(), []byte("k0"), topic.AnyPartition, []commitlog.Record{rec(0, 0)}, sequence(7, n)); !errors.Is(err, fault.Invalid) {
			t.Errorf("sequence %d: %v; expected Invalid", n, err)
		}
	}
}
