package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

func (n *node) told(text string) bool {
	return slices.ContainsFunc(n.reports, func(r Report) bool { return strings.Contains(r.Text, text) })
}

// hangingPair is a group in which a should give units to b, but its workers don't end.
func hangingPair(t *testing.T) (w *world, a, b *node) {
	w = newWorld(t)
	a = w.start("a")
	w.quiet()
	a.hangs = true
	b = w.start("b")
	w.quiet()
	if got := len(b.units()); got != 0 {
		t.Fatalf("b runs %d units while a still works on them", got)
	}
	return w, a, b
}

func TestHandlersAreCancelledAtTheDrainDeadline(t *testing.T) {
	t.Parallel()
	w, a, b := hangingPair(t)
	w.pass(drain - time.Second)
	if got := len(a.units()); got != 8 {
		t.Errorf("a runs %d units before the deadline; want 8", got)
	}
	w.pass(time.Second)
	w.complete()
	if got := len(b.units()); got != 4 {
		t.Errorf("b runs %d units after the deadline; want 4", got)
	}
	// Its handlers may have finished what the checkpoint does not say: that was no clean handoff.
	for u, st := range b.running {
		if !strings.HasPrefix(st.Why, "handed over without what its stopped handlers finished, by a: ") {
			t.Errorf("unit %d came because %q; want that its handlers were stopped", u, st.Why)
		}
	}
}

func TestUnitMovesOnWithoutAHandlerThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	w, a, b := hangingPair(t)
	a.deaf = true
	a.work(3)
	w.pass(drain + grace)
	if got := len(b.units()); got != 4 {
		t.Fatalf("b runs %d units; want 4", got)
	}
	for u, st := range b.running {
		if st.Checkpoint == nil || st.Checkpoint.Positions[0].Next != 3 {
			t.Errorf("unit %d started from %+v; want the 3 that a's worker told last", u, st.Checkpoint)
		}
	}
	if !a.told("after its context was cancelled") {
		t.Error("a does not tell of its handlers")
	}
}

func TestDeadTargetIsReplaced(t *testing.T) {
	t.Parallel()
	w, a, b := hangingPair(t)
	w.kill(b)
	w.quiet()
	a.hangs = false
	for _, u := range a.units() {
		if a.s.units[u].worker == draining {
			a.end(u, nil)
		}
	}
	w.pass(time.Second)
	w.complete()
	if got := len(a.units()); got != 8 {
		t.Errorf("a runs %d units; want all 8 back", got)
	}
}

// A handoff is refused when its target died since a last looked.
func TestHandoffChecksThatItsTargetLives(t *testing.T) {
	t.Parallel()
	w, a, b := hangingPair(t)
	c := w.start("c")
	w.quiet()
	w.store.end(b.session)
	b.frozen = true
	a.inbox = nil // a has not heard of it
	w.store.changed = false
	for _, u := range a.units() {
		if a.s.units[u].worker == draining {
			a.end(u, nil)
		}
	}
	a.hangs = false
	w.quiet()
	for _, r := range a.reports {
		if r.Kind == HandedOver && r.To == "b" {
			t.Errorf("unit %d was given to b, which is dead", r.Unit)
		}
	}
	w.nodes = []*node{a, c}
	w.store.changed = true
	w.pass(time.Second)
	w.complete()
}

// A member that hangs but whose session lives (renewed by a thread of its own, say) hands nothing over.
func TestTargetTakesOverFromAnOwnerThatDoesNotHandOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.quiet()
	b := w.start("b")
	a.frozen = true
	w.store.sessions[a.session] = 1 << 60
	w.pass(time.Second)
	if got := w.load().Assignment; got == nil || len(got.Members) != 2 || got.By != "b" {
		t.Errorf("the assignment is %+v; want b to have written it in a's place", got)
	}
	w.pass(drain + 2*grace + ttl - time.Second)
	if got := len(b.units()); got != 0 {
		t.Errorf("b took %d units before a's time was up", got)
	}
	w.pass(time.Second)
	if got := len(b.units()); got != 4 {
		t.Errorf("b runs %d units; want 4, claimed", got)
	}
	if !b.told("did not hand it over") {
		t.Error("b does not tell why")
	}
}

func TestTakeoverIsOneReadingAndOneWrite(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	w.kill(a)
	lists, applies, now := w.store.lists, w.store.applies, w.now
	for i := 0; len(b.running) < 8; i++ {
		if i > 10 {
			t.Fatalf("b runs %v", b.units())
		}
		if w.store.changed {
			w.store.changed = false
			b.post(Changed{})
		}
		ev := b.inbox[0]
		b.inbox = b.inbox[1:]
		b.step(ev())
	}
	if got := w.store.lists - lists; got != 2 { // a Load lists the group and its checkpoints
		t.Errorf("%d lists until all units ran; want those of one Load", got)
	}
	if got := w.store.applies - applies; got != 1 || w.now != now {
		t.Errorf("%d writes and %s until all units ran; want 1, and no timer", got, w.now-now)
	}
}

func TestOneMemberWritesTheAssignment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.start(name)
		w.pass(time.Second)
	}
	if got := w.load().Assignment; got.Version != 4 || got.Reason != "d joined" {
		t.Errorf("after 4 members joined the assignment is version %d, because %q; want 4, d joined", got.Version, got.Reason)
	}
}

// tellToDrain marks the entry of a member, as an operator may.
func (w *world) tellToDrain(n *node) {
	w.t.Helper()
	m, v, _ := w.load().Member(n.name)
	m.Draining = true
	res := w.store.one(&registry.Txn{
		Checks: []registry.Check{{Key: w.group.MemberKey(n.name), Version: v}},
		Puts:   []registry.Put{{Key: w.group.MemberKey(n.name), Value: registry.Encode(m), Session: n.session}},
	})
	if res.Err != nil {
		w.t.Fatal(res.Err)
	}
}

// It has the fewest units of all, and is to have none.
func TestAUnitThatHangsIsNotGivenToAMemberThatDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.start("a"), w.start("b"), w.start("c")
	w.pass(time.Second)
	w.tellToDrain(b)
	w.pass(time.Second)
	a.deaf = true
	u := a.units()[0]
	a.post(UnitStuck{Unit: u, Run: a.running[u].Run, For: time.Minute})
	w.pass(2*grace + time.Second)
	if _, ok := c.running[u]; !ok || b.starts[u] > 0 || len(b.units()) > 0 {
		t.Errorf("unit %d hung on a; b, which drains, runs %v, and c %v", u, b.units(), c.units())
	}
}

func TestMemberThatIsToldToDrainGivesEverythingAway(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	w.tellToDrain(a)
	w.pass(time.Second)
	w.complete()
	if len(b.units()) != 8 || a.exit != nil {
		t.Errorf("b runs %v, a's exit is %+v; want all units on b and a on standby", b.units(), a.exit)
	}
}

func TestStuckUnitComesBackOrMovesAway(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	stuck := func(u int) { a.post(UnitStuck{Unit: u, Run: a.running[u].Run, For: time.Minute}) }
	stuck(0)
	w.pass(time.Second)
	w.complete()
	if a.starts[0] != 2 || a.starts[1] != 1 {
		t.Errorf("unit 0 was started %d times, 1 %d times; want 2 and 1", a.starts[0], a.starts[1])
	}
	a.deaf = true
	stuck(0)
	w.pass(2 * grace)
	if a.starts[0] != 2 {
		t.Error("unit 0 was started beside its hanging handler")
	}
	b := w.start("b")
	w.pass(time.Second)
	if _, ok := b.running[0]; !ok {
		t.Errorf("b runs %v; want the unit that hangs on a among them", b.units())
	}
}

// While a unit's handlers hang at two members, each would give it to the other, and all who watch the group would
// read it again each time. So it is tried elsewhere at a pace.
func TestAUnitThatHangsAtTwoMembersIsPassedOnAtAPace(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.deaf = true
	a.post(UnitStuck{Unit: 0, Run: a.running[0].Run, For: time.Minute})
	b := w.start("b")
	w.pass(2 * grace)
	if _, ok := b.running[0]; !ok {
		t.Fatalf("b runs %v; want the unit that hangs on a among them", b.units())
	}
	b.deaf = true
	b.post(UnitStuck{Unit: 0, Run: b.running[0].Run, For: time.Minute})
	before := w.store.applies
	w.pass(time.Minute)
	if writes := w.store.applies - before; writes > 100 {
		t.Errorf("%d writes in a minute in which nothing can be done", writes)
	}
}

func TestAUnitThatHangsAtTwoMembersComesToAThirdThatHasMoreToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("c", func(c *Config) { c.Weight = 6 })
	a, b := w.start("a"), w.start("b")
	w.pass(time.Minute)
	w.complete()
	u := a.units()[0]
	for _, n := range []*node{a, b} {
		n.deaf = true
		st, ok := n.running[u]
		if !ok {
			t.Fatalf("a runs %v and b %v; want unit %d at the one that has less to do than c", a.units(), b.units(), u)
		}
		n.post(UnitStuck{Unit: u, Run: st.Run, For: time.Minute})
		w.pass(2 * grace)
	}
	w.pass(time.Minute)
	c := w.nodes[0]
	if _, ok := c.running[u]; !ok {
		t.Errorf("a runs %v, b %v, c %v; want unit %d, which hangs on a and b, at c", a.units(), b.units(), c.units(), u)
	}
}

func TestFailingWorkerIsStartedAgainWithGrowingPauses(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	var pauses []time.Duration
	for range 5 {
		a.end(2, registry.ErrInvalid)
		began := w.now
		for a.running[2].Run == 0 {
			w.pass(10 * time.Millisecond)
		}
		pauses = append(pauses, w.now-began)
	}
	if !slices.IsSorted(pauses) || pauses[0] < retryFirst || pauses[4] < 16*retryFirst {
		t.Errorf("pauses are %v; want them to double from %s", pauses, retryFirst)
	}
	if a.starts[1] != 1 {
		t.Error("another unit was started again too")
	}
}

// What a worker tells people is no progress: a unit whose handlers hang one after another goes to another member
// all the same, and one that fails is started again after pauses that grow.
func TestWhatIsToldToPeopleIsNoProgress(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	told := func(u int) {
		c := at(a.progress[u])
		c.Deliveries = &protocol.Deliveries{At: 1, Rate: float64(a.starts[u])}
		a.post(Progress{Units: []UnitProgress{{Unit: u, Run: a.running[u].Run, Checkpoint: c}}})
		w.pass(time.Second)
	}
	hangs, fails := a.units()[0], a.units()[1]
	for range maxStuck {
		told(hangs)
		a.post(UnitStuck{Unit: hangs, Run: a.running[hangs].Run, For: time.Minute})
		w.pass(2 * grace)
	}
	if _, ok := b.running[hangs]; !ok {
		t.Errorf("unit %d hung %d times on a, and b runs %v; want it there", hangs, maxStuck, b.units())
	}
	var pauses []time.Duration
	for range 5 {
		told(fails)
		a.end(fails, registry.ErrInvalid)
		began := w.now
		for a.running[fails].Run == 0 {
			w.pass(10 * time.Millisecond)
		}
		pauses = append(pauses, w.now-began)
	}
	if pauses[4] < 16*retryFirst {
		t.Errorf("pauses are %v; want them to double from %s", pauses, retryFirst)
	}
}
