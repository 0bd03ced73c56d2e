package core

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// A drain takes up to its time-out. Whoever loses a unit meanwhile must not wait for that: the next
// owner handles the same records already.
func TestAUnitThatIsLostWhileItDrainsIsCancelledAtOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world, a *node, units []int){
		"somebody else is the owner": func(w *world, _ *node, units []int) {
			st := w.load()
			for _, u := range units {
				res := w.store.one(&registry.Txn{
					Checks: []registry.Check{{Key: w.group.OwnerKey(u), Version: st.Units[u].OwnerVersion}},
					Puts:   []registry.Put{{Key: w.group.OwnerKey(u), Value: registry.Encode(protocol.Owner{Member: "x", Incarnation: "x1", Epoch: 9})}},
				})
				if res.Err != nil {
					t.Error(res.Err)
				}
			}
		},
		"a commit is refused": func(w *world, a *node, units []int) {
			w.store.refuse = func(string) bool { return true } // the reading does not tell before the commit does
			var p Progress
			for _, u := range units {
				p.Units = append(p.Units, UnitProgress{Unit: u, Run: a.running[u].Run, Checkpoint: at(5)})
			}
			for _, e := range a.s.Step(Input{Now: w.now + time.Second, Event: p}) {
				if apply, ok := e.(Apply); ok {
					res := make([]registry.Result, len(apply.Txns))
					for i := range res {
						res[i].Err = registry.ErrConflict
					}
					a.post(Applied{ID: apply.ID, Results: res})
				}
			}
			w.now += time.Second
		},
		"the store ended its session": func(_ *world, a *node, _ []int) { a.post(SessionLost{Session: a.session}) },
		"its lease runs out":          func(w *world, a *node, _ []int) { w.now += ttl; a.post(Tick{}) },
		"its name was taken": func(w *world, _ *node, _ []int) {
			entry := w.store.entries[w.group.MemberKey("a")]
			entry.Value, entry.Version = registry.Encode(protocol.Member{ID: "a", Incarnation: "another"}), "taken"
			w.store.entries[entry.Key], w.store.changed = entry, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.start("a")
			w.pass(time.Second)
			a.hangs = true
			w.start("b")
			w.pass(time.Second)
			units := drained(a)
			if len(units) != 4 || len(a.units()) != 8 {
				t.Fatalf("a drains %v of %v; want half of 8", units, a.units())
			}
			lose(w, a, units)
			for len(a.inbox) > 0 { // the others stand still
				next := a.inbox[0]
				a.inbox = a.inbox[1:]
				a.step(next())
			}
			w.quiet()
			for _, u := range units {
				if slices.Contains(a.units(), u) {
					t.Errorf("the handlers of unit %d go on though it is lost", u)
				}
				if cause := a.causes[u]; !errors.Is(cause, registry.ErrFenced) {
					t.Errorf("the handlers of unit %d were told: %v; want ErrFenced", u, cause)
				}
			}
		})
	}
}

// drained are the units of n that are about to end.
func drained(n *node) (units []int) {
	for u := range n.s.units {
		if n.s.units[u].worker == draining {
			units = append(units, u)
		}
	}
	return units
}
