package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// keyOf finds a key that a member answers yes for.
func keyOf(t *testing.T, r *ring.Ring) string {
	t.Helper()
	for _, k := range someKeys(1000) {
		if mine, _ := r.ShouldHandle(k); mine {
			return k
		}
	}
	t.Fatalf("%s has no key", r.Member())
	return ""
}

func yes(r *ring.Ring, key string) bool {
	mine, _ := r.ShouldHandle(key)
	return mine
}

// A leaving member of an anchor ring answers for its keys until the drain is over, while its heir
// does already; in a table ring nobody does until the drain is over.
func TestTheDrainOfALeave(t *testing.T) {
	t.Parallel()
	const drain = 300 * time.Millisecond
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		synctest.Test(t, func(t *testing.T) {
			store := memregistry.NewStore()
			var rings []*ring.Ring
			for _, id := range []string{"a", "b"} {
				h := store.Open()
				t.Cleanup(func() { _ = h.Close() })
				r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: id, Mode: mode, Drain: drain})
				must(t, err)
				must(t, r.WaitEstablished(t.Context()))
				defer func() { _ = r.Close(context.Background()) }()
				rings = append(rings, r)
			}
			time.Sleep(time.Second)
			a, b := rings[0], rings[1]
			key := keyOf(t, b)
			var leaving sync.WaitGroup
			leaving.Go(func() {
				if err := b.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			both := mode == ring.Anchor
			time.Sleep(drain / 2)
			if yes(a, key) != both || yes(b, key) != both {
				t.Errorf("within the drain: heir %t, leaver %t; want both %t", yes(a, key), yes(b, key), both)
			}
			if owner, _ := a.Owner(key); both && owner != "a" {
				t.Errorf("within the drain the heir takes %q for the owner", owner)
			}
			leaving.Wait()
			time.Sleep(drain)
			if !yes(a, key) || yes(b, key) {
				t.Errorf("after the drain: heir %t, leaver %t; want only the heir", yes(a, key), yes(b, key))
			}
			if err := b.WaitEstablished(t.Context()); err != nil {
				t.Errorf("a member that was established: %v", err)
			}
			if err := b.Refresh(t.Context()); !errors.Is(err, ring.ErrClosed) {
				t.Errorf("a refresh after the leave: %v; want closed", err)
			}
		})
	})
}

// Who hears no reply to its leave finds itself gone, and drains all the same.
func TestTheDrainOfALeaveWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	const drain = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		h, other := store.Open(), store.Open()
		t.Cleanup(func() { _ = h.Close() })
		t.Cleanup(func() { _ = other.Close() })
		slow := func(c *ring.Config) { c.Drain = drain }
		a, b := join(t, h.Registry, ring.Anchor, "a", slow), join(t, other.Registry, ring.Anchor, "b", slow)
		time.Sleep(time.Second)
		key := keyOf(t, a)
		other.SetLatency(drain / 10) // the heir hears of it a little later
		h.LoseReplies(1)
		began := time.Now()
		var leaving sync.WaitGroup
		leaving.Go(func() {
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		if !yes(a, key) {
			t.Error("the leaver says no before the heir can say yes")
		}
		time.Sleep(drain / 2)
		if !yes(a, key) || !yes(b, key) {
			t.Errorf("within the drain: leaver %t, heir %t; want both", yes(a, key), yes(b, key))
		}
		leaving.Wait()
		if took := time.Since(began); took < drain || took > drain+time.Second {
			t.Errorf("the leave took %s; the drain is %s", took, drain)
		}
	})
}

func TestMembersOfOneRingAskForTheSame(t *testing.T) {
	t.Parallel()
	reg := memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	join(t, reg, ring.Table, "a")
	for name, cfg := range map[string]ring.Config{
		"another mode":            {Mode: ring.Anchor},
		"another number of slots": {Mode: ring.Table, Slots: 33},
	} {
		cfg.Registry, cfg.Name, cfg.Member = reg, "r", "b"
		if _, err := ring.Join(t.Context(), cfg); !errors.Is(err, ring.ErrExists) {
			t.Errorf("%s: %v; want already exists", name, err)
		}
	}
	if err := ring.Delete(t.Context(), reg, "r"); !errors.Is(err, ring.ErrConflict) {
		t.Errorf("deleting a ring with members: %v; want a conflict", err)
	}
}

func TestADeletedRingIsGoneAndCanBeMadeAnew(t *testing.T) {
	t.Parallel()
	reg := memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	for _, mode := range []ring.Mode{ring.Anchor, ring.Table, ring.Anchor} {
		r, err := ring.Join(t.Context(), ring.Config{Registry: reg, Name: "r", Member: "m", Mode: mode})
		must(t, err)
		must(t, r.WaitEstablished(t.Context()))
		leave(t, r)
		if names, err := ring.List(t.Context(), reg); err != nil || len(names) != 1 {
			t.Fatalf("rings %v %v", names, err)
		}
		must(t, ring.Delete(t.Context(), reg, "r"))
		if _, err := ring.Look(t.Context(), reg, "r"); !errors.Is(err, ring.ErrNotFound) {
			t.Fatalf("a deleted ring: %v", err)
		}
		if snap, err := reg.List(t.Context(), "rings/"); err != nil || len(snap.Entries) > 0 {
			t.Fatalf("left behind: %v %v", snap.Entries, err)
		}
	}
}

func TestADeletionCutShortIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		h := memregistry.NewStore().Open()
		t.Cleanup(func() { _ = h.Close() })
		leave(t, join(t, h.Registry, mode, "a"))
		writes := 0
		h.OnApply(func([]string) error {
			if writes++; writes > 1 { // the first marks it as deleted
				return registry.ErrUnavailable
			}
			return nil
		})
		if err := ring.Delete(t.Context(), h.Registry, "r"); !errors.Is(err, registry.ErrUnavailable) {
			t.Fatalf("a deletion cut short: %v; want unavailable", err)
		}
		h.OnApply(nil)
		must(t, ring.Delete(t.Context(), h.Registry, "r"))
		if snap, err := h.List(t.Context(), "rings/"); err != nil || len(snap.Entries) > 0 {
			t.Fatalf("left behind: %v %v", snap.Entries, err)
		}
		if err := ring.Delete(t.Context(), h.Registry, "r"); !errors.Is(err, ring.ErrNotFound) {
			t.Fatalf("deleting a ring that is gone: %v; want not found", err)
		}
	})
}

// The mapping has a history: a member that goes and comes back finds its keys again, and a view
// from outside shows the same owners as the members.
func TestAMemberThatComesBackFindsItsKeys(t *testing.T) {
	t.Parallel()
	store := memregistry.NewStore()
	keys := someKeys(300)
	var rings []*ring.Ring
	for i := range 4 {
		h := store.Open()
		t.Cleanup(func() { _ = h.Close() })
		rings = append(rings, join(t, h.Registry, ring.Anchor, fmt.Sprintf("m%d", i)))
	}
	waitSettled(t, rings, keys)
	before := map[string]string{}
	var first int64
	for _, k := range keys {
		before[k], first = rings[0].Owner(k)
	}
	leave(t, rings[2])
	eventually(t, "the others see it leave", func() bool { return len(rings[0].Members()) == 3 })
	h := store.Open()
	t.Cleanup(func() { _ = h.Close() })
	rings[2] = join(t, h.Registry, ring.Anchor, "m2")
	waitSettled(t, rings, keys)
	v, err := ring.Look(t.Context(), h.Registry, "r")
	must(t, err)
	for _, k := range keys {
		if got, epoch := v.Owner(k); got != before[k] || epoch < first+2 {
			t.Errorf("key %s belongs to %s at epoch %d; before it was %s at %d, and 1 left, 1 joined", k, got, epoch, before[k], first)
		}
	}
}

func TestBadInputIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := ring.Join(t.Context(), ring.Config{Name: "a/b", Mode: "circle", Slots: -1, TTL: time.Millisecond})
	if !errors.Is(err, ring.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	if _, err := ring.Look(t.Context(), memregistry.New(), "a b"); !errors.Is(err, ring.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

// What can't be understood is not guessed at: nobody answers yes by an old view.
func TestADocumentOfANewerVersionStopsTheAnswers(t *testing.T) {
	t.Parallel()
	reg := memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	r := join(t, reg, ring.Anchor, "m")
	if !yes(r, "k") {
		t.Fatal("alone, and the key is not its own")
	}
	e, err := reg.Get(t.Context(), "rings/r/anchor")
	must(t, err)
	put := func(value []byte) {
		_, err := reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: e.Key, Value: value}}})
		must(t, err)
	}
	put([]byte(`{"format":2}`))
	eventually(t, "no answer by a document that is not understood", func() bool { return !yes(r, "k") })
	put(e.Value)
	eventually(t, "answers again", func() bool { return yes(r, "k") })
}

func TestLookupsAllocateNothing(t *testing.T) {
	reg := memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	for _, mode := range modes {
		r, err := ring.Join(t.Context(), ring.Config{Registry: reg, Name: string(mode), Member: "m", Mode: mode})
		must(t, err)
		defer leave(t, r)
		must(t, r.WaitEstablished(t.Context()))
		// What the member does besides is counted too, and a lookup that allocates does so each time.
		least := math.Inf(1)
		for try := 0; try < 50 && least > 0; try++ {
			least = min(least, testing.AllocsPerRun(1000, func() { _, _ = r.ShouldHandle("user-123"); _, _ = r.Owner("user-123") }))
		}
		if least != 0 {
			t.Errorf("%s: %.0f allocations; want none", mode, least)
		}
	}
}

func BenchmarkShouldHandle(b *testing.B) {
	for _, mode := range modes {
		b.Run(string(mode), func(b *testing.B) {
			reg := memregistry.New()
			defer reg.Close()
			r, err := ring.Join(b.Context(), ring.Config{Registry: reg, Name: "r", Member: "m", Mode: mode})
			must(b, err)
			defer func() { _ = r.Close(context.Background()) }()
			must(b, r.WaitEstablished(b.Context()))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.ShouldHandle("user-123")
			}
		})
	}
}

// A start of a table ring's member waits for an earlier one, which is cut off and may still say yes. When it is
// closed before its turn came it leaves no session behind, which the next start would have to wait for.
func TestAStartThatIsClosedBeforeItsTurnLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		cutOff, h, other := store.Open(), store.Open(), store.Open()
		for _, h := range []*memregistry.Handle{cutOff, h, other} {
			defer func() { _ = h.Close() }()
		}
		join := func(h *memregistry.Handle) *ring.Ring {
			r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: "a", Mode: ring.Table})
			must(t, err)
			return r
		}
		first := join(cutOff)
		must(t, first.WaitEstablished(t.Context()))
		defer func() { _ = first.Close(context.Background()) }()
		cutOff.SetOutage(true)
		next := join(h)
		synctest.Wait()
		const start = "rings/r/starts/a"
		if e, err := other.Get(t.Context(), start); err != nil || e.Session == "" {
			t.Fatalf("it is announced as %+v, %v", e, err)
		}
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if e, err := other.Get(t.Context(), start); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("its announcement is left: %+v, %v; expected that it went with the session", e, err)
		}
		cutOff.SetOutage(false)
	})
}
