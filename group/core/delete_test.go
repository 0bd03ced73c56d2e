package core

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// There is no moment at which the store has a member of no group.
func TestTheFirstMemberAndTheGroupAreStoredAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	left := 3
	w.store.refuse = func(key string) bool {
		for k := range w.store.entries {
			if _, ok := w.store.entries[w.group.MetaKey()]; !ok {
				t.Errorf("%s is there and the group isn't", k)
			}
		}
		left--
		return left >= 0
	}
	a := w.start("a")
	w.pass(10 * time.Second)
	if a.exit != nil || left > 0 {
		t.Fatalf("a's exit is %+v; it was refused %d times less than it was to be", a.exit, left)
	}
	w.complete()
}

// remove takes all entries away at once, as a deletion has in the end.
func (w *world) remove() {
	clear(w.store.entries)
	w.store.changed = true
}

func TestALateJoinDoesNotBeginADeletedGroupByHalves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Static, c.RestartWindow = true, time.Minute })
	w.pass(5 * time.Second)
	w.store.end(a.session)
	deleted := false
	w.store.onApply = func(key string) { // the join of a's next session
		if !deleted && key == w.group.MemberKey("a") {
			deleted = true
			w.remove()
		}
	}
	w.pass(5 * time.Second)
	if !deleted || len(w.store.entries) > 0 {
		t.Errorf("deleted: %v; there are %d entries of a group without its document", deleted, len(w.store.entries))
	}
	if a.exit == nil || !errors.Is(a.exit.Err, registry.ErrNotFound) {
		t.Errorf("its exit is %+v, want ErrNotFound", a.exit)
	}
}

func TestALateAssignmentDoesNotBeginADeletedGroupByHalves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deleted := false
	w.store.onApply = func(key string) {
		if !deleted && key == w.group.AssignmentKey() {
			deleted = true
			w.remove()
		}
	}
	w.start("a")
	w.pass(5 * time.Second)
	if !deleted || len(w.store.entries) > 0 {
		t.Errorf("deleted: %v; there are %d entries of a group without its document", deleted, len(w.store.entries))
	}
}

// A host that was suspended finds that its lease ended earlier than it thought.
func TestALeaseThatEndsSoonerIsObeyed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.pass(5 * time.Second)
	if len(a.running) != 8 {
		t.Fatalf("%d units run, want 8", len(a.running))
	}
	a.step(Renewed{Session: a.session, Lease: w.now})
	if len(a.running) != 0 {
		t.Errorf("%d units still run after the end of the lease", len(a.running))
	}
}

// A commit that is answered while the group is being read is no reason to read it again.
func TestACommitDuringAReadingAsksForNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.pass(5 * time.Second)
	a.work(1)
	w.pass(time.Second)
	before := w.store.lists
	a.post(Changed{})
	for range 20 {
		// The reading is done in the store, and answered after the commit.
		a.step(a.inbox[0]())
		a.inbox = a.inbox[1:]
		if l, ok := a.last.(Load); !ok {
			t.Fatalf("after a hint it asks for %T", a.last)
		} else {
			st, err := w.group.Load(context.Background(), true)
			a.inbox = nil
			a.work(1)
			w.now += time.Second
			w.store.sessions[a.session] = w.now + ttl
			a.post(Renewed{Session: a.session, Lease: w.now + ttl})
			w.quiet()
			a.post(Loaded{ID: l.ID, State: st, Err: err})
		}
		w.quiet()
		if _, again := a.last.(Load); again {
			t.Fatal("it reads again")
		}
		a.post(Changed{})
	}
	if n := w.store.lists - before; n > 2*20 {
		t.Errorf("%d lists for 20 hints", n)
	}
}
