package mirror_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// A cut-over is killed at each of its writes in turn, and repeated. The groups have the same to do at
// the target as they had at the source, also when they are in one registry, where a second
// translation of a translated position would skip records.
func TestACutOverThatIsKilledAtAnyWriteGoesOn(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("one registry: %v", shared), func(t *testing.T) {
			t.Parallel()
			for at, done := 1, false; !done; at++ {
				done = killedCutOver(t, shared, at, false)
				done = killedCutOver(t, shared, at, true) || done
				if at > 200 {
					t.Fatal("the cut-over never comes to its end")
				}
			}
		})
	}
}

// killedCutOver kills a cut-over before its n-th write, or after it; true: it came to its end.
func killedCutOver(t *testing.T, shared bool, n int, after bool) (done bool) {
	t.Helper()
	w := newWorld(t, 2)
	target := memregistry.NewStore().Open()
	if shared {
		target = w.home.Open()
	}
	w.must(w.to.Registry.Close())
	w.to.Registry, w.shared = target.Registry, shared
	w.produce(0, 60)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 2, Assignor: "sticky"})
	w.must(err)
	source, want := w.contents(w.from, 0), make([][]string, 2)
	for p := range want {
		pos := protocol.Position{Partition: p, Next: source[p][9].Offset, Done: []protocol.Range{{source[p][12].Offset, source[p][15].Offset}}}
		want[p] = unfinished(source[p], pos)
		w.must(g.Seek(t.Context(), p, protocol.Checkpoint{Positions: []protocol.Position{pos}}, "test"))
	}
	cutOver := func(ctx context.Context) error {
		m, err := mirror.New(mirror.Config{From: w.from, To: w.to, SameRegistry: shared, Topic: name})
		w.must(err)
		_, err = m.CutOver(ctx)
		return err
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	var writes atomic.Int64
	target.OnApply(func([]string) error {
		mine := writes.Add(1) == int64(n)
		if mine {
			kill()
		}
		if mine && !after {
			return fmt.Errorf("killed: %w", fault.Unavailable)
		}
		return nil
	})
	done = cutOver(ctx) == nil
	target.OnApply(nil)
	if !done {
		w.must(cutOver(t.Context()))
	}
	w.wantSame(0)
	there, err := protocol.NewGroup(w.to.Registry, "billing")
	w.must(err)
	copied := w.contents(w.to, 0)
	for p := range want {
		u, err := there.Unit(t.Context(), p)
		w.must(err)
		if got := unfinished(copied[p], u.Checkpoint.Positions[0]); !slices.Equal(got, want[p]) {
			t.Errorf("killed at write %d: partition %d has %v to do; want %v", n, p, got, want[p])
		}
	}
	if d, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Get(t.Context(), name); err != nil || d.Produce != len(d.Storage)-1 {
		t.Errorf("killed at write %d: the definition at the target: %+v, %v", n, d, err)
	}
	return done
}

// Somebody else, who does the same cut-over, writes the note of a group's progress while this one carries it over:
// it reads that once more, and goes on.
func TestACutOverThatSomebodyElseIsInTheWayOfGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.produce(0, 30)
	g, err := protocol.NewGroup(w.from.Registry, "billing")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
	w.must(err)
	source := w.contents(w.from, 0)
	pos := protocol.Position{Next: source[0][9].Offset}
	w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{pos}}, "test"))
	store := memregistry.NewStore()
	target, other := store.Open(), store.Open()
	w.must(w.to.Registry.Close())
	w.to.Registry = target.Registry
	there, err := protocol.NewGroup(w.to.Registry, "billing")
	w.must(err)
	var carried atomic.Int64
	target.OnApply(func(keys []string) error {
		if !slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix(k, there.CheckpointKey(0)) }) {
			return nil
		}
		if carried.Add(1) > 1 {
			return nil
		}
		notes, err := other.List(t.Context(), "mirrors/")
		for _, e := range notes.Entries {
			if strings.Contains(e.Key, "/carried/") {
				_, err = other.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: e.Key, Value: e.Value}}})
			}
		}
		return err
	})
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
	if carried.Load() < 2 {
		t.Errorf("%d writes of the checkpoint; expected that the first was in vain", carried.Load())
	}
	u, err := there.Unit(t.Context(), 0)
	w.must(err)
	if got, want := unfinished(w.contents(w.to, 0)[0], u.Checkpoint.Positions[0]), unfinished(source[0], pos); !slices.Equal(got, want) {
		t.Errorf("%v is left to do; expected %v", got, want)
	}
}
