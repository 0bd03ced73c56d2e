package harness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// witness is a member behind an observer, and what the observer told.
type witness struct {
	*observer
	handle *memregistry.Handle
	by     *protocoltest.Member
	group  *protocol.Group // through the observer
	events []history.Event
}

func newWitness(t *testing.T, store *memregistry.Store, name string) *witness {
	t.Helper()
	handle := store.Open()
	t.Cleanup(func() { must(t, handle.Close()) })
	inner, err := protocol.NewGroup(handle.Registry, "g")
	must(t, err)
	w := &witness{handle: handle}
	w.observer = newObserver(handle.Registry, inner, name, func(e history.Event) { w.events = append(w.events, e) }, func() {})
	if w.group, err = protocol.NewGroup(registry.New(w.observer), "g"); err != nil {
		t.Fatal(err)
	}
	session, err := handle.OpenSession(t.Context(), time.Second)
	must(t, err)
	_, err = w.group.EnsureMeta(t.Context(), protocol.Meta{Format: 1, Topic: "t", Units: 2, Assignor: "sticky"})
	must(t, err)
	if w.by, err = protocoltest.Join(t.Context(), w.group, session, protocol.Member{ID: name, Incarnation: name + "1"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// told is the last event of a kind.
func (w *witness) told(kind history.Kind) history.Event {
	for _, e := range slices.Backward(w.events) {
		if e.Kind == kind {
			return e
		}
	}
	return history.Event{}
}

func TestObserverTellsWhatTheStoreAnswered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := memregistry.NewStore()
	a, b := newWitness(t, store, "a"), newWitness(t, store, "b")

	grant, err := a.by.Claim(ctx, 1, "first")
	must(t, err)
	if e := a.told(history.Owned); e.Member != "a" || e.Incarnation != "a1" || e.Unit != 1 || e.Epoch != grant.Epoch || e.Handoff || a.at(1, grant.Epoch) != "a1" {
		t.Errorf("the claim was told as %v", e)
	}
	must(t, a.by.Commit(ctx, grant, 7))
	if e := a.told(history.Committed); e.Outcome != history.Accepted || e.Incarnation != "a1" || e.Epoch != grant.Epoch || e.Positions[0].Next != 7 {
		t.Errorf("the checkpoint was told as %v", e)
	}

	must(t, a.by.Handoff(ctx, grant, 9, b.by, "handoff from a"))
	if e := a.told(history.Owned); e.Member != "b" || e.Epoch <= grant.Epoch || e.After != grant.Epoch || !e.Handoff || e.Positions[0].Next != 9 {
		t.Errorf("the handoff was told as %v", e)
	}
	_, err = b.group.Load(ctx, false)
	must(t, err)
	if e := b.told(history.Owned); e.Member != "b" || e.Incarnation != "b1" || e.After != grant.Epoch || e.Positions[0].Next != 9 {
		t.Errorf("the new owner told %v", e)
	}

	if err := a.by.Commit(ctx, grant, 9); !errors.Is(err, registry.ErrFenced) {
		t.Fatalf("a stale checkpoint: %v", err)
	}
	if e := a.told(history.Committed); e.Outcome != history.Refused || e.Epoch != grant.Epoch {
		t.Errorf("the stale checkpoint was told as %v", e)
	}
}

// What its stopped handlers finished may be repeated after such a handoff, whoever tells of it.
func TestObserverTellsAnUncleanHandoff(t *testing.T) {
	t.Parallel()
	store := memregistry.NewStore()
	a, b := newWitness(t, store, "a"), newWitness(t, store, "b")
	grant, err := a.by.Claim(t.Context(), 1, "first")
	must(t, err)
	must(t, a.by.Handoff(t.Context(), grant, 9, b.by, "handed over without what its stopped handlers finished, by a: c joined"))
	_, err = b.group.Load(t.Context(), false)
	must(t, err)
	for _, w := range []*witness{a, b} {
		if e := w.told(history.Owned); e.Member != "b" || e.Handoff {
			t.Errorf("it was told as %v", e)
		}
	}
}

func TestHauntIsRefusedUnderTheOldEpoch(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := memregistry.NewStore()
	a, b := newWitness(t, store, "a"), newWitness(t, store, "b")
	grant, err := a.by.Claim(ctx, 0, "first")
	must(t, err)
	must(t, a.by.Commit(ctx, grant, 3))
	_, err = b.by.Seize(ctx, 0, "forced")
	must(t, err)
	a.events = nil
	a.haunt(context.WithoutCancel(ctx))
	if len(a.events) != 1 || a.events[0].Outcome != history.Refused || a.events[0].Epoch != grant.Epoch {
		t.Errorf("the ghost told %v; expected one refused commit under the old epoch", a.events)
	}

	// A server that was away as well loses the first answers.
	a.events = nil
	a.handle.LoseReplies(2)
	a.haunt(context.WithoutCancel(ctx))
	if len(a.events) != 3 || a.events[0].Outcome != history.Unknown || a.events[2].Outcome != history.Refused {
		t.Errorf("the ghost told %v; expected a refused commit after two without an answer", a.events)
	}
}

// slowly lets something happen after each list of owners.
type slowly struct {
	driver.Registry
	meanwhile func()
}

func (s slowly) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	snap, err := s.Registry.List(ctx, prefix)
	if strings.Contains(prefix, "groups/") {
		s.meanwhile()
	}
	return snap, err
}

// The checkpoint is read after the owner. A unit that was taken away and moved in between must not
// be told as one that began where the next owner is.
func TestObserverTellsNoOwnerThatWasReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := memregistry.NewStore()
	a, b, c := newWitness(t, store, "a"), newWitness(t, store, "b"), newWitness(t, store, "c")
	grant, err := a.by.Claim(ctx, 0, "first")
	must(t, err)
	must(t, a.by.Handoff(ctx, grant, 2, b.by, "handoff from a"))
	bs, err := a.group.Unit(ctx, 0)
	must(t, err)
	var once sync.Once
	b.Registry = slowly{b.Registry, func() {
		once.Do(func() {
			taken, err := c.by.Seize(ctx, 0, "b is gone")
			if err == nil {
				err = c.by.Commit(ctx, taken, 38)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}}
	if _, err := b.group.Load(ctx, false); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("a look that was overtaken: %v; expected to have to look again", err)
	}
	st, err := b.group.Load(ctx, false)
	if err != nil || st.Units[0].Owner.After != bs.Owner.Epoch {
		t.Errorf("the second look: %+v, %v", st, err)
	}
	if len(b.events) != 0 {
		t.Errorf("told %v of a unit that it never worked on", b.events)
	}
}

func TestObserverTellsANewSession(t *testing.T) {
	t.Parallel()
	w := newWitness(t, memregistry.NewStore(), "a")
	if e := w.told(history.Rejoined); e.Kind != "" {
		t.Fatalf("its first session was told: %s", e)
	}
	session, err := w.OpenSession(t.Context(), time.Second)
	must(t, err)
	if e := w.told(history.Rejoined); e.Member != "a" || e.Incarnation != "a1" {
		t.Errorf("told: %s", e)
	}
	must(t, session.Close(t.Context()))
}
