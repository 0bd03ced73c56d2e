package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// A member that was replaced behind its back finds out by its refused commit, and stops.
func TestCommitOfAReplacedOwnerIsRefused(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	a.work(10)
	w.pass(time.Second)
	mine := a.units()
	stay := b.units()
	a.frozen = true
	w.store.end(a.session) // as if it had expired; a's own clock stands still
	w.quiet()
	if got := len(b.units()); got != 8 {
		t.Fatalf("b runs %d units after a's session ended; want 8", got)
	}
	for _, u := range stay {
		if b.starts[u] != 1 {
			t.Errorf("unit %d was b's all along but was started %d times", u, b.starts[u])
		}
	}
	a.inbox = nil // the hint has not reached it yet
	a.work(50)
	a.step(a.inbox[0]())
	a.inbox = a.inbox[1:]
	if len(a.inbox) == 0 {
		t.Fatal("a does not try to commit")
	}
	a.step(a.inbox[0]())
	if got := a.units(); len(got) != 0 {
		t.Errorf("a still runs %v after its commits were refused", got)
	}
	for _, u := range mine {
		if c := w.load().Units[u].Checkpoint; c.Positions[0].Next != 10 {
			t.Errorf("unit %d: checkpoint %+v; want the 10 that a committed as the owner", u, c)
		}
	}
}

// Between the reading that a claim is made from and the claim, the old owner may still commit.
func TestClaimStartsFromTheCheckpointAsOfTheClaim(t *testing.T) {
	t.Parallel()
	w, a, b := pair(t)
	a.work(10)
	w.pass(time.Second)
	unit := a.units()[0]
	a.frozen = true
	w.store.onApply = func(key string) {
		if key != w.group.OwnerKey(unit) {
			return
		}
		w.store.onApply = nil
		st := w.load()
		res := w.store.one(&registry.Txn{
			Checks: []registry.Check{{Key: key, Version: st.Units[unit].OwnerVersion}},
			Puts:   []registry.Put{{Key: w.group.CheckpointKey(unit), Value: registry.Encode(at(77))}},
		})
		if res.Err != nil {
			t.Errorf("the old owner's last commit: %v", res.Err)
		}
	}
	w.store.end(a.session)
	w.quiet()
	started, ok := b.running[unit]
	if !ok || started.Checkpoint == nil || started.Checkpoint.Positions[0].Next != 77 {
		t.Errorf("b started unit %d with %+v; want from 77, committed before the claim", unit, started.Checkpoint)
	}
}

// A commit whose fate is unknown may be applied late, after newer ones: it must not undo them.
func TestLateCommitDoesNotGoBack(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	var late []registry.Txn
	for _, e := range a.s.Step(Input{Now: w.now, Event: Progress{Units: []UnitProgress{{Unit: 0, Run: a.running[0].Run, Checkpoint: at(10)}}}}) {
		if apply, ok := e.(Apply); ok {
			late = apply.Txns
			a.post(Applied{ID: apply.ID, Err: registry.ErrUnknown})
		}
	}
	if len(late) != 1 {
		t.Fatalf("the progress became %d transactions; want 1", len(late))
	}
	a.progress[0] = 20
	a.work(0)
	w.pass(time.Second)
	if got := w.load().Units[0].Checkpoint.Positions[0].Next; got != 20 {
		t.Fatalf("the checkpoint is %d; want 20", got)
	}
	if res := w.store.one(&late[0]); !errors.Is(res.Err, registry.ErrConflict) {
		t.Errorf("the late commit was applied: %v", res.Err)
	}
	a.work(5)
	w.pass(time.Second)
	if got := w.load().Units[0].Checkpoint.Positions[0].Next; got != 25 {
		t.Errorf("the checkpoint is %d; want 25", got)
	}
}

// A reading that fails says nothing, least of all that nothing was ever committed.
func TestFailedReadingStartsNothing(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.work(10)
	w.pass(time.Second)
	w.kill(a)
	b := w.start("b")
	for range 100 {
		w.now += 50 * time.Millisecond
		b.post(Tick{})
		for len(b.inbox) > 0 {
			ev := b.inbox[0]()
			b.inbox = b.inbox[1:]
			if l, ok := ev.(Loaded); ok {
				ev = Loaded{ID: l.ID, Err: registry.ErrUnavailable}
			}
			b.step(ev)
		}
	}
	if len(b.running) != 0 {
		t.Fatalf("b started %d units though it could not read", len(b.running))
	}
	w.pass(5 * time.Second)
	w.complete()
	for u, st := range b.running {
		if st.Checkpoint == nil || st.Checkpoint.Positions[0].Next != 10 {
			t.Errorf("unit %d started from %+v; want 10", u, st.Checkpoint)
		}
	}
}

func TestEveryUnknownOutcomeIsResolved(t *testing.T) {
	t.Parallel()
	// Each call in turn is applied and its answer lost; then the group must come to the same end.
	for lost := 1; lost < 40; lost++ {
		w := newWorld(t)
		calls := 0
		w.store.onApply = func(string) {}
		count := func(n *node) {
			// The store's flag stands for the one call that is about to be made.
			calls = w.store.applies + 1
			w.store.lose = calls == lost
		}
		a, b := w.start("a"), w.start("b")
		w.store.onApply = func(string) { count(nil) }
		w.pass(time.Second)
		a.work(7)
		b.work(7)
		w.pass(time.Second)
		b.post(Stop{})
		w.pass(3 * time.Second)
		w.store.lose = false
		w.pass(3 * time.Second)
		if b.exit == nil || b.exit.Err != nil {
			t.Errorf("answer %d lost: b's exit is %+v", lost, b.exit)
		}
		w.nodes = w.nodes[:1]
		w.complete()
		for u, st := range w.load().Units {
			if st.Checkpoint == nil || st.Checkpoint.Positions[0].Next != 7 {
				t.Errorf("answer %d lost: unit %d has checkpoint %+v; want 7", lost, u, st.Checkpoint)
			}
		}
		if t.Failed() {
			return
		}
	}
}

func TestNewIncarnationFencesTheOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a1 := w.start("a")
	w.pass(time.Second)
	a1.work(5)
	w.pass(time.Second)
	a2 := w.start("a")
	w.quiet()
	if a1.exit == nil || !errors.Is(a1.exit.Err, registry.ErrFenced) || !strings.Contains(a1.exit.Err.Error(), "started again as incarnation a") {
		t.Errorf("the first a ended with %+v; want ErrFenced that tells what happened", a1.exit)
	}
	if got := a1.units(); len(got) != 0 {
		t.Errorf("the first a still runs %v", got)
	}
	w.complete()
	if len(a2.units()) != 8 || a2.running[0].Checkpoint.Positions[0].Next != 5 {
		t.Errorf("the second a runs %v from %+v", a2.units(), a2.running[0].Checkpoint)
	}
}

// A store that failed over to an older state must not hand out an epoch twice, nor keep an older
// checkpoint than the owner knows.
func TestStoreThatWentBack(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.work(10)
	w.pass(time.Second)
	before := map[string]registry.Entry{}
	for k, e := range w.store.entries {
		before[k] = e
	}
	must(t, w.group.Seek(t.Context(), 0, at(500), "test"))
	a.work(10)
	w.pass(time.Second)
	w.store.entries = before
	w.store.changed = true
	w.pass(time.Second)
	w.complete()
	st := w.load()
	if got := st.Units[0].Owner.Epoch; got != 3 {
		t.Errorf("unit 0 is at epoch %d; want 3: 2 was used, though the store forgot", got)
	}
	if got := st.Units[1].Checkpoint.Positions[0].Next; got != 20 {
		t.Errorf("unit 1 has checkpoint %d; want the 20 that its owner knows", got)
	}
}

// A worker that begins at the end of a partition stores that itself before it handles anything. One
// that is started after it must begin there too.
func TestRestartedWorkerBeginsWhereTheFirstDid(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	u := w.load().Units[0]
	must(t, w.group.Commit(t.Context(), protocol.Grant{Unit: 0, Epoch: 1, Version: u.OwnerVersion}, at(42), u.CheckpointVersion))
	run := a.running[0].Run
	delete(a.running, 0)
	a.post(UnitEnded{Unit: 0, Run: run, Err: registry.ErrUnavailable})
	w.pass(time.Second)
	if c := a.running[0].Checkpoint; c == nil || c.Positions[0].Next != 42 {
		t.Errorf("the second worker began from %+v; want 42", c)
	}
	a.work(1)
	w.pass(time.Second)
	if got := w.load().Units[0].Checkpoint.Positions[0].Next; got != 43 {
		t.Errorf("the checkpoint is %d; want 43", got)
	}
}

// Beside a handler that never came back nothing may run in the same epoch.
func TestUnitWithAHandlerLeftBehindGoesOnInANewEpoch(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.work(3)
	run := a.running[0].Run
	delete(a.running, 0)
	a.post(UnitEnded{Unit: 0, Run: run, Err: registry.ErrUnavailable, Stuck: true})
	w.pass(time.Second)
	w.complete()
	st := a.running[0]
	if st.Grant.Epoch != 2 || st.Checkpoint.Positions[0].Next != 3 || !strings.Contains(st.Why, "never came back") {
		t.Errorf("unit 0 runs at epoch %d from %+v because %q; want epoch 2 from 3", st.Grant.Epoch, st.Checkpoint, st.Why)
	}
}
