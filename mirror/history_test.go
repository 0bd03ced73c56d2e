package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// history is a world to which anything happens that stores and processes may do.
type history struct {
	*world
	rnd      *rand.Rand
	saved    []registry.Snapshot
	produced int
	told     []string
}

// run is one mirror, which may be killed amid its work.
func (h *history) run(kill bool, do func(ctx context.Context, w *world) error) error {
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	w := *h.world
	if kill {
		left := new(atomic.Int64)
		left.Store(int64(h.rnd.IntN(30)))
		w.to.Log = commitlog.New(flaky{h.store.Driver(), cancel, left})
		defer w.to.Log.Close()
	}
	return do(ctx, &w)
}

func (h *history) step() {
	h.Helper()
	kill := h.rnd.IntN(2) == 0
	copyAll := func(ctx context.Context, w *world) error { return w.mirror(true).Run(ctx) }
	var err error
	var what string
	switch n := h.rnd.IntN(10); {
	case n < 3:
		what = "produce"
		h.produce(h.produced, 1+h.rnd.IntN(60))
		h.produced += 100
	case n < 6:
		what = "mirror"
		err = h.run(kill, copyAll)
	case n == 6:
		what = "two mirrors"
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := copyAll(h.Context(), h.world); err != nil && !errors.Is(err, fault.Conflict) && !errors.Is(err, fault.Fenced) && !errors.Is(err, fault.NotFound) {
					h.Errorf("one of two mirrors: %v", err)
				}
			})
		}
		both.Wait()
	case n == 7:
		what = "back"
		h.goBack(h.saved[h.rnd.IntN(len(h.saved))])
	case n == 8 && h.rnd.IntN(3) == 0:
		what = "grow"
		h.grow(1 + h.rnd.IntN(3))
	}
	h.saved = append(h.saved, h.world.saved())
	h.told = append(h.told, fmt.Sprintf("%s %v", what, err))
	if err != nil && !kill {
		h.Fatalf("%v", h.told)
	}
}

// The registry of the target goes back, mirrors are killed and run beside each other: a copy is complete in the end,
// and the progress of a group leaves exactly what it left at the source.
func TestMirrorBearsAnyHistory(t *testing.T) {
	t.Parallel()
	for range 20 {
		seed := rand.Uint64()
		w := newWorld(t, 2)
		w.to.Name = elsewhere
		h := &history{world: w, rnd: rand.New(rand.NewPCG(seed, 1)), saved: []registry.Snapshot{w.saved()}}
		for range 5 + h.rnd.IntN(20) {
			h.step()
		}
		source := h.contents(h.from, 0)
		g, err := protocol.NewGroup(w.from.Registry, "billing")
		w.must(err)
		doc, err := topic.NewCatalog(w.from.Log, w.from.Registry, "").Get(t.Context(), name)
		w.must(err)
		_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: doc.Units(), Assignor: "sticky"})
		w.must(err)
		left := len(source[0])
		if left > 0 {
			next := h.rnd.IntN(left)
			w.must(g.Seek(t.Context(), 0, at(0, 0, source[0][next].Offset), ""))
			left -= next
		}
		for try := 0; ; try++ {
			err := h.run(try < 4, func(ctx context.Context, w *world) error {
				_, err := w.mirror(false).CutOver(ctx)
				return err
			})
			if err == nil && try >= 4 {
				break
			}
			if err != nil && try >= 4 {
				t.Fatalf("seed %d: %v, then the cut-over: %v", seed, h.told, err)
			}
			if h.rnd.IntN(2) == 0 {
				h.goBack(h.saved[h.rnd.IntN(len(h.saved))])
			}
			h.saved = append(h.saved, h.world.saved())
		}
		for i := range doc.Storage {
			h.wantSame(i)
		}
		if left > 0 {
			if got := len(h.left(h.to)); got != left {
				t.Errorf("the group has %d records to do; expected %d", got, left)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, h.told)
		}
	}
}
