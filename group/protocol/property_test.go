package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// TestEpochsFenceWhateverHappens has members claim, hand off, release, checkpoint, die and come
// back at random, while the store loses requests and replies, and checks after each step that
// epochs only rise, that an epoch belongs to one owner, and that nobody writes a checkpoint but
// the owner under the epoch it was granted.
func TestEpochsFenceWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		defer w.close()
		for range rapid.IntRange(5, 60).Draw(rt, "steps") {
			w.step()
			w.check()
		}
	})
}

const worldUnits = 2

type actor struct {
	*protocoltest.Member
	id     string
	h      *memregistry.Handle
	grants map[int]protocol.Grant // what it believes to own
}

type world struct {
	rt      *rapid.T
	ctx     context.Context
	store   *memregistry.Store
	watcher *memregistry.Handle
	g       *protocol.Group
	actors  []*actor
	starts  int
	epochs  [worldUnits]int64
	owners  map[string]string // unit and epoch → who it belongs to
	next    [worldUnits]int64 // the checkpoint as it has to be
	counter int64
	// The version of each checkpoint, now and before its last change.
	versions, before [worldUnits]registry.Version
}

func newWorld(rt *rapid.T) *world {
	w := &world{rt: rt, ctx: context.Background(), store: memregistry.NewStore(), owners: map[string]string{}}
	w.watcher = w.store.Open()
	w.g = w.group(w.watcher)
	if _, err := w.g.EnsureMeta(w.ctx, protocol.Meta{Topic: "t", Units: worldUnits}); err != nil {
		rt.Fatal(err)
	}
	for i := range 3 {
		w.actors = append(w.actors, &actor{id: fmt.Sprint("m", i)})
		w.join(w.actors[i])
	}
	return w
}

func (w *world) group(h *memregistry.Handle) *protocol.Group {
	g, err := protocol.NewGroup(h.Registry, "g")
	if err != nil {
		w.rt.Fatal(err)
	}
	return g
}

func (w *world) join(a *actor) {
	w.starts++
	a.h, a.grants = w.store.Open(), map[int]protocol.Grant{}
	s, err := a.h.OpenSession(w.ctx, time.Hour)
	if err == nil {
		a.Member, err = protocoltest.Join(w.ctx, w.group(a.h), s, protocol.Member{ID: a.id, Incarnation: fmt.Sprint("i", w.starts)})
	}
	if err != nil {
		w.rt.Fatal(err)
	}
}

func (w *world) close() {
	for _, a := range w.actors {
		a.h.Close()
	}
	w.watcher.Close()
}

func (w *world) step() {
	a := rapid.SampledFrom(w.actors).Draw(w.rt, "actor")
	unit := rapid.IntRange(0, worldUnits-1).Draw(w.rt, "unit")
	switch rapid.IntRange(0, 3).Draw(w.rt, "fault") {
	case 0:
		a.h.LoseReplies(rapid.IntRange(1, 4).Draw(w.rt, "replies"))
	case 1:
		a.h.LoseRequests(rapid.IntRange(1, 4).Draw(w.rt, "requests"))
	}
	defer func() { a.h.LoseReplies(0); a.h.LoseRequests(0) }()
	w.counter++
	grant := a.grants[unit]
	grant.Unit = unit
	switch what := rapid.SampledFrom([]string{"claim", "claim", "seize", "commit", "commit", "late", "handoff", "release", "seek", "restart"}).Draw(w.rt, "what"); what {
	case "claim", "seize":
		take := a.Claim
		if what == "seize" {
			take = a.Seize
		}
		got, err := take(w.ctx, unit, what)
		if err == nil {
			a.grants[unit] = got
			w.belongs(unit, got.Epoch, a.id+"@"+a.Incarnation)
		}
		w.allowed(err, registry.ErrConflict, registry.ErrUnknown, registry.ErrFenced)
	case "commit":
		err := a.Commit(w.ctx, grant, w.counter)
		w.fencedUnlessCurrent(unit, grant, err)
		w.wrote(unit, err)
	case "late": // decided on before the last change
		err := a.Group.Commit(w.ctx, grant, at(w.counter), w.before[unit])
		w.fencedUnlessCurrent(unit, grant, err)
		if err == nil && w.before[unit] != w.versions[unit] {
			w.rt.Fatalf("unit %d: a checkpoint that follows version %q was stored over %q", unit, w.before[unit], w.versions[unit])
		}
		w.wrote(unit, err)
	case "handoff":
		if grant.Version == "" {
			return // what nobody has been given can't be given away
		}
		to := rapid.SampledFrom(w.actors).Draw(w.rt, "target")
		err := a.Handoff(w.ctx, grant, w.counter, to.Member, "handoff")
		w.fencedUnlessCurrent(unit, grant, err)
		w.wrote(unit, err)
	case "release":
		if grant.Version == "" {
			return
		}
		err := a.Handoff(w.ctx, grant, w.counter, nil, "release")
		w.fencedUnlessCurrent(unit, grant, err)
		w.wrote(unit, err)
	case "seek":
		err := a.Group.Seek(w.ctx, unit, at(w.counter), "seek")
		w.allowed(err, registry.ErrUnknown)
		w.wrote(unit, err)
	case "restart":
		a.h.Kill()
		w.join(a)
	}
}

// fencedUnlessCurrent: success under an old epoch is the one thing that must never be.
func (w *world) fencedUnlessCurrent(unit int, grant protocol.Grant, err error) {
	if err == nil && grant.Epoch != w.epochs[unit] {
		w.rt.Fatalf("unit %d: a write under epoch %d was accepted at epoch %d", unit, grant.Epoch, w.epochs[unit])
	}
	w.allowed(err, registry.ErrFenced, registry.ErrConflict, registry.ErrUnknown, registry.ErrInvalid)
}

func (w *world) allowed(err error, kinds ...error) {
	for _, k := range kinds {
		if errors.Is(err, k) {
			return
		}
	}
	if err != nil {
		w.rt.Fatal(err)
	}
}

// wrote notes what the checkpoint has to be now; after an unknown outcome it may be either.
func (w *world) wrote(unit int, err error) {
	switch {
	case err == nil:
		w.next[unit] = w.counter
	case errors.Is(err, registry.ErrUnknown):
		if u := w.unit(unit); u.Checkpoint != nil && u.Checkpoint.Positions[0].Next == w.counter {
			w.next[unit] = w.counter
		}
	}
}

func (w *world) unit(unit int) protocol.Unit {
	u, err := w.g.Unit(w.ctx, unit)
	if err != nil {
		w.rt.Fatal(err)
	}
	return u
}

func (w *world) belongs(unit int, epoch int64, who string) {
	at := fmt.Sprint(unit, "/", epoch)
	if was, ok := w.owners[at]; ok && was != who {
		w.rt.Fatalf("unit %d: epoch %d was given to %s and to %s", unit, epoch, was, who)
	}
	w.owners[at] = who
}

func (w *world) check() {
	for n := range worldUnits {
		u := w.unit(n)
		if u.Owner.Epoch < w.epochs[n] || u.Owner.Epoch > w.epochs[n] && u.Owner.After != w.epochs[n] {
			w.rt.Fatalf("unit %d went from epoch %d to %d in one step", n, w.epochs[n], u.Owner.Epoch)
		}
		w.epochs[n] = u.Owner.Epoch
		if u.Owner.Member != "" {
			w.belongs(n, u.Owner.Epoch, u.Owner.Member+"@"+u.Owner.Incarnation)
		}
		if u.CheckpointVersion != w.versions[n] {
			w.before[n], w.versions[n] = w.versions[n], u.CheckpointVersion
		}
		next := int64(0)
		if u.Checkpoint != nil {
			next = u.Checkpoint.Positions[0].Next
		}
		if next != w.next[n] {
			w.rt.Fatalf("unit %d has checkpoint %d, expected %d", n, next, w.next[n])
		}
	}
}
