package core

import (
	"maps"
	"testing"
	"time"
)

// The answers to calls may come in any order, and long after the calls took effect. In these tests
// an answer is evaluated at one moment (the store acts) and delivered at another.

// next evaluates the oldest thing in the node's inbox without delivering it.
func (n *node) next() Event {
	ev := n.inbox[0]()
	n.inbox = n.inbox[1:]
	return ev
}

// until delivers what is in the inbox until the next is the answer to a call of that kind.
func (n *node) until(kind func(Effect) bool) {
	n.w.t.Helper()
	for range 100 {
		if n.pending(kind) {
			return
		}
		if len(n.inbox) == 0 {
			break
		}
		n.step(n.next())
	}
	n.w.t.Fatalf("%s never made the call", n.name)
}

func (n *node) pending(kind func(Effect) bool) bool {
	return n.last != nil && len(n.inbox) == 1 && kind(n.last)
}

func anApply(e Effect) bool { _, ok := e.(Apply); return ok }

func TestReadingFromBeforeAWriteDoesNotUndoIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a")
	w.quiet()
	b := w.start("b")
	w.pass(time.Second)
	w.nodes = []*node{b}
	w.store.end(a.session)
	b.post(Changed{})
	b.until(anApply) // its claims
	b.post(Changed{})
	apply := b.inbox[0]
	b.inbox = b.inbox[1:]
	b.step(b.next()) // the hint: another Load
	old := b.next()
	b.step(apply())
	before := len(b.reports)
	b.step(old)
	if len(b.running) != 8 {
		t.Errorf("b runs %v; want all that it claimed", b.units())
	}
	for _, r := range b.reports[before:] {
		t.Errorf("an old reading made b say: %s unit %d: %s", r.Kind, r.Unit, r.Text)
	}
	w.quiet()
	w.complete()
}

func TestSlowAnswerDoesNotHideWhatCameAfter(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.progress[0] = 10
	a.post(Progress{Units: []UnitProgress{{Unit: 0, Run: a.running[0].Run, Checkpoint: at(10)}}})
	a.until(anApply)
	slow := a.next()
	must(t, w.group.Seek(t.Context(), 0, at(500), "test"))
	w.quiet()
	a.step(slow)
	w.quiet()
	if st := a.running[0]; st.Grant.Epoch != 2 || st.Checkpoint.Positions[0].Next != 500 {
		t.Errorf("unit 0 runs at epoch %d from %+v; want 2 from 500", st.Grant.Epoch, st.Checkpoint)
	}
	a.work(5)
	w.pass(time.Second)
	if got := w.load().Units[0].Checkpoint.Positions[0].Next; got != 505 {
		t.Errorf("the checkpoint is %d; want 505", got)
	}
}

// failOver answers the call that n has just made, puts the store back to before it, as a replica does
// that lagged, and lets n read that. Only then the answer comes.
func (n *node) failOver() {
	w := n.w
	before := maps.Clone(w.store.entries)
	call := n.inbox[0]
	n.inbox = n.inbox[1:]
	answer := call()
	w.store.entries, w.store.changed = before, false
	n.post(Changed{}) // whoever was connected is told once
	n.until(func(e Effect) bool { _, ok := e.(Load); return ok })
	n.step(n.next())
	n.step(answer)
	w.quiet()
}

// A store that fails over tells of it once. The reading that follows may be at hand before the answer
// to an earlier write, which the store has lost: to believe that answer would be to wait for a
// change that nobody makes.
func TestAWriteThatAReadingContradictsIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	t.Run("claims", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a := w.start("a")
		w.quiet()
		b := w.start("b")
		w.pass(time.Second)
		w.nodes = []*node{b}
		w.store.end(a.session)
		w.store.changed = false
		b.post(Changed{})
		b.until(anApply)
		b.failOver()
		w.pass(time.Second)
		w.complete()
	})
	t.Run("a commit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a := w.start("a")
		w.pass(time.Second)
		a.work(10)
		a.until(anApply)
		a.failOver()
		w.pass(time.Second)
		for u, st := range w.load().Units {
			if st.Checkpoint == nil || st.Checkpoint.Positions[0].Next != 10 {
				t.Errorf("unit %d: the store holds %+v; expected the 10 that its owner knows", u, st.Checkpoint)
			}
		}
	})
}

// From when its session ended until it is back, others may take a member's units.
func TestReturningMemberLooksAgainBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	mine := a.units()
	a.post(SessionLost{Session: a.session})
	w.nodes = []*node{a}
	w.store.end(a.session)
	a.until(anApply) // it would join again
	w.nodes = []*node{b}
	b.post(Changed{})
	w.quiet() // b takes everything
	started := len(a.starts)
	a.step(a.next())
	for _, u := range mine {
		if _, ok := a.running[u]; ok {
			t.Errorf("a runs unit %d again, which b has taken (%d starts)", u, started)
		}
	}
	w.nodes = []*node{a, b}
	w.store.changed = true
	w.pass(time.Second)
	w.complete()
}

// A member may have been in the group, and been given units, without ever hearing of it.
func TestMemberWhoseJoinWasNotAnsweredLooksAgainBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	w.nodes = nil
	b := w.start("b")
	w.nodes = []*node{b}
	b.until(anApply) // its join
	w.store.lose = true
	unknown := b.next()
	w.store.lose = false
	w.nodes = []*node{a}
	a.post(Changed{})
	w.quiet() // a gives units to b
	w.nodes = []*node{b}
	b.step(unknown)
	w.store.end(b.session)
	b.step(SessionLost{Session: b.session})
	b.until(anApply) // it joins again
	w.nodes = []*node{a}
	a.post(Changed{})
	w.quiet() // a takes the units again
	b.step(b.next())
	if us := b.units(); len(us) > 0 {
		t.Errorf("b runs units %v, which a has taken", us)
	}
	w.nodes = []*node{a, b}
	w.store.changed = true
	w.pass(time.Second)
	w.complete()
}

func TestClaimIsRefusedWhenTheDeadHaveComeBack(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	a.work(1)
	w.pass(time.Second) // there is nothing left for a to commit, so that only its return is in the way
	w.nodes = []*node{b}
	w.store.end(a.session)
	b.post(Changed{})
	b.until(anApply) // its claims
	w.nodes = []*node{a}
	a.post(SessionLost{Session: a.session})
	w.quiet() // a is back before they arrive
	w.nodes = []*node{a, b}
	w.quiet()
	if b.told("a is gone") {
		t.Error("b took units from a, which had come back")
	}
	w.pass(time.Second)
	w.complete()
}

func TestHintDuringALoadLeadsToAnother(t *testing.T) {
	t.Parallel()
	_, a := alone(t)
	a.step(Changed{})
	old := a.next()
	a.step(Changed{})
	if len(a.inbox) != 0 {
		t.Error("a second Load is under way beside the first")
	}
	a.step(old)
	if len(a.inbox) != 1 {
		t.Error("the change that came while a was reading is lost")
	}
}

// As long as the session is not closed, nobody else starts the units of cancelled workers.
func TestLostSessionIsClosedAfterTheWorkersEnded(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.deaf = true
	session := a.session
	a.step(SessionLost{Session: session})
	if _, open := w.store.sessions[session]; !open {
		t.Error("the session was closed under running workers")
	}
	a.deaf = false
	for u := range 8 {
		a.end(u, nil)
	}
	w.quiet()
	if _, open := w.store.sessions[session]; open {
		t.Error("the session was never closed")
	}
	w.pass(time.Second)
	w.complete()
}
