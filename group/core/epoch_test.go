package core

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// What a store has forgotten was given before its present time, so no claim and no handoff may fall
// below that.
func TestNoEpochIsBelowTheStoresTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.clock = func() int64 { return 1_800_000_000_000 + w.now.Milliseconds() }
	floor := func() int64 { return protocol.NextEpoch(0, w.store.clock()) }
	claimed := floor()
	a := w.start("a")
	w.pass(time.Minute)
	handed := floor()
	b := w.start("b")
	w.quiet()
	w.complete()
	for _, n := range []struct {
		*node
		floor int64
	}{{a, claimed}, {b, handed}} {
		if len(n.running) != 4 {
			t.Errorf("%s runs %d units; want 4", n.name, len(n.running))
		}
		for u, r := range n.running {
			if r.Grant.Epoch < n.floor {
				t.Errorf("%s has unit %d in epoch %d; the store's time makes it %d at least", n.name, u, r.Grant.Epoch, n.floor)
			}
		}
	}
}

// owned puts an owner entry of a stranger into the store.
func (w *world) owned(unit int, o protocol.Owner) {
	w.store.one(&registry.Txn{
		Checks: []registry.Check{{Key: w.group.OwnerKey(unit), Version: w.store.entries[w.group.OwnerKey(unit)].Version}},
		Puts:   []registry.Put{{Key: w.group.OwnerKey(unit), Value: registry.Encode(o)}},
	})
}

// unowned counts what a node has told people of a unit that nobody can own.
func (n *node) unowned(unit int) (times int) {
	for _, r := range n.reports {
		if r.Kind == Trouble && r.Unit == unit && r.Err != nil && strings.Contains(r.Err.Error(), "group delete --force") {
			times++
		}
	}
	return times
}

// What is beyond the last epoch can be read by nobody: it would keep all from their units for ever.
func TestNobodyBeginsAnEpochThatNobodyReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.pass(time.Second)
	w.owned(2, protocol.Owner{Epoch: protocol.MaxEpoch})
	w.owned(3, protocol.Owner{Epoch: protocol.MaxClaim})
	w.owned(4, protocol.Owner{Epoch: protocol.MaxClaim - 1})
	w.pass(time.Minute)
	for unit, runs := range map[int]bool{1: true, 2: false, 3: false, 4: true} {
		if _, ok := a.running[unit]; ok != runs {
			t.Errorf("unit %d runs: %t; expected %t", unit, ok, runs)
		}
		if times := a.unowned(unit); (times == 1) == runs || times > 1 {
			t.Errorf("of unit %d, which runs: %t, people were told %d times", unit, runs, times)
		}
	}
	// Its owner can still give away what was claimed in the last epoch.
	b := w.start("b")
	w.pass(time.Minute)
	if _, ok := b.running[4]; !ok {
		a.post(Stop{})
		w.pass(time.Minute)
	}
	if r, ok := b.running[4]; !ok || r.Grant.Epoch != protocol.MaxClaim+1 {
		t.Errorf("b has unit 4: %t, in epoch %d; expected %d", ok, r.Grant.Epoch, int64(protocol.MaxClaim+1))
	}
	w.load() // fails on what can't be read
}

// Who repairs the store has the unit worked on again: what was forged was never anybody's epoch.
func TestAForgedEpochIsForgottenWithItsEntry(t *testing.T) {
	t.Parallel()
	for _, epoch := range []int64{protocol.MaxClaim, protocol.MaxClaim + 1, protocol.MaxEpoch} {
		w := newWorld(t)
		a := w.start("a")
		w.pass(time.Second)
		sound := w.load().Units[3].Owner
		w.owned(3, protocol.Owner{Epoch: epoch})
		w.pass(time.Minute)
		if _, ok := a.running[3]; ok || a.unowned(3) != 1 {
			t.Errorf("epoch %d: the unit runs: %t; people were told %d times", epoch, ok, a.unowned(3))
		}
		w.owned(3, sound)
		w.pass(time.Minute)
		if _, ok := a.running[3]; !ok {
			t.Errorf("epoch %d: the owner was put back, and nobody runs the unit", epoch)
		}
	}
}

func TestNobodyGivesAwayWhatHasNoEpochLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.pass(time.Second)
	w.owned(4, protocol.Owner{Member: "a", Incarnation: a.s.cfg.Incarnation, Epoch: protocol.MaxEpoch})
	w.pass(time.Second)
	a.post(Stop{})
	w.pass(time.Minute)
	if a.exit == nil {
		t.Error("a does not leave")
	}
	if o := w.load().Units[4].Owner; o.Epoch != protocol.MaxEpoch {
		t.Errorf("the owner is %+v", o)
	}
}

func TestAnAssignmentOfAnyVersionIsFollowedByOneThatIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.pass(time.Second)
	key := w.group.AssignmentKey()
	w.store.one(&registry.Txn{
		Checks: []registry.Check{{Key: key, Version: w.store.entries[key].Version}},
		Puts:   []registry.Put{{Key: key, Value: registry.Encode(protocol.Assignment{Version: protocol.MaxEpoch, Targets: make([]string, 8)})}},
	})
	w.pass(time.Minute)
	if doc := w.load().Assignment; doc == nil || doc.Version != 1 || len(a.running) != 8 {
		t.Errorf("the assignment is %+v, and a runs %d units", doc, len(a.running))
	}
}
