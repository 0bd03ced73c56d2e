package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

func TestCommitsGoInOneBatchAtATime(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	var sent []Apply
	for _, units := range [][]int{{0, 1, 2}, {3, 4}, {0, 5}} {
		var p Progress
		for _, u := range units {
			p.Units = append(p.Units, UnitProgress{Unit: u, Run: a.running[u].Run, Checkpoint: at(5)})
		}
		w.now += time.Second
		for _, e := range a.s.Step(Input{Now: w.now, Event: p}) {
			if apply, ok := e.(Apply); ok {
				sent = append(sent, apply)
			}
		}
	}
	if len(sent) != 1 || len(sent[0].Txns) != 3 {
		t.Fatalf("%d calls are under way; want 1 with 3 transactions", len(sent))
	}
	for _, txn := range sent[0].Txns {
		if !txn.Quiet {
			t.Error("a checkpoint wakes all members")
		}
	}
}

// Reads work and writes don't: the pauses must grow all the same.
func TestFullDiskIsNoBusyLoop(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.work(1)
	tries := 0
	for end := w.now + 20*time.Second; w.now < end; {
		w.now += 10 * time.Millisecond
		a.post(Renewed{Session: a.session, Lease: w.now + ttl})
		a.post(Tick{})
		for len(a.inbox) > 0 {
			ev := a.inbox[0]()
			a.inbox = a.inbox[1:]
			if ap, ok := ev.(Applied); ok {
				tries++
				ev = Applied{ID: ap.ID, Err: registry.ErrUnavailable}
			}
			a.step(ev)
		}
	}
	if tries > 40 || tries < 10 {
		t.Errorf("%d tries in 20 s; want them to slow down to one a second, and not to end", tries)
	}
	if len(a.running) != 8 {
		t.Errorf("a runs %v; want all: its session is fine", a.units())
	}
}

func TestLeaseThatRunsOutStopsEverythingInTime(t *testing.T) {
	t.Parallel()
	for _, renewed := range []time.Duration{0, time.Second} {
		leaseRunsOut(t, renewed)
	}
}

func leaseRunsOut(t *testing.T, after time.Duration) {
	w := newWorld(t)
	a := w.start("a")
	w.pass(after)
	w.store.down = true
	lease := w.now + ttl
	for len(a.running) > 0 {
		if w.now >= lease {
			t.Fatalf("units %v run though the lease is over", a.units())
		}
		w.pass(10 * time.Millisecond)
	}
	w.pass(time.Minute)
	w.store.down = false
	w.pass(3 * time.Second)
	w.complete()
}

// To cancel handlers takes time, and the clocks of machines differ in their pace: what ends only when
// the store may let others in ends too late.
func TestEverythingIsStoppedAMarginBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	for of, margin := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 20 * time.Millisecond,
		time.Second:            100 * time.Millisecond,
		5 * time.Second:        500 * time.Millisecond,
		time.Minute:            500 * time.Millisecond,
	} {
		w := newWorld(t)
		a := w.start("a", func(c *Config) { c.SessionTTL = of })
		w.quiet()
		a.post(Renewed{Session: a.session, Lease: w.now + of})
		w.quiet()
		lease := a.s.lease
		w.store.down = true
		w.now = lease - margin - time.Millisecond
		a.post(Tick{})
		w.quiet()
		if got := len(a.units()); got != 8 {
			t.Errorf("a TTL of %s: %d of 8 units run %s before the lease ends", of, got, lease-w.now)
		}
		w.now += time.Millisecond
		if a.timer != w.now {
			t.Errorf("a TTL of %s: the timer is set to %s before the lease ends; expected %s", of, lease-a.timer, margin)
		}
		a.post(Tick{})
		w.quiet()
		if got := a.units(); len(got) > 0 {
			t.Errorf("a TTL of %s: units %v run %s before the lease ends; expected none from then on", of, got, margin)
		}
	}
}

// After an outage everybody goes on with what it had: who is back first takes nothing from those who
// are a moment later.
func TestOutageMovesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start("a"), w.start("b")
	w.pass(2 * time.Second)
	before := w.load()
	w.store.down = true
	w.pass(time.Minute)
	w.store.down = false
	b.frozen = true // a is back first
	w.pass(time.Second)
	b.frozen = false
	w.pass(5 * time.Second)
	w.complete()
	after := w.load()
	for u := range after.Units {
		if after.Units[u].OwnerVersion != before.Units[u].OwnerVersion {
			t.Errorf("unit %d went from %+v to %+v", u, before.Units[u].Owner, after.Units[u].Owner)
		}
	}
	if after.Assignment.Version != before.Assignment.Version {
		t.Errorf("the assignment was written anew: %s", after.Assignment.Reason)
	}
	b.frozen = true
	w.store.end(b.session)
	w.pass(time.Second)
	w.nodes = []*node{a}
	w.complete()
}

func TestStaticMemberIsAwaited(t *testing.T) {
	t.Parallel()
	static := func(c *Config) { c.Static, c.RestartWindow = true, 20*time.Second }
	w := newWorld(t)
	a, b := w.start("a", static), w.start("b", static)
	w.pass(time.Second)
	mine := b.units()
	w.kill(b)
	w.pass(10 * time.Second)
	c := w.start("c") // sees the window from its middle on
	w.pass(9 * time.Second)
	for u, st := range w.load().Units {
		if slices.Contains(mine, u) && st.Owner.Member != "b" {
			t.Errorf("unit %d went to %q within b's window", u, st.Owner.Member)
		}
	}
	w.pass(2 * time.Second)
	w.complete()
	if len(a.units()) != 4 || len(c.units()) != 4 {
		t.Errorf("a runs %v, c runs %v after the window; want 4 each", a.units(), c.units())
	}
}

func TestWrongGroupEndsTheMember(t *testing.T) {
	t.Parallel()
	for what, opt := range map[string]func(*Config){
		"8 units":            func(c *Config) { c.Units = 9 },
		`topic "t"`:          func(c *Config) { c.Topic = "other" },
		`layout ""`:          func(c *Config) { c.LayoutName = "pairs" },
		`assignor "sticky"`:  func(c *Config) { c.Assignor = assign.FairShare{} },
		"bytes; at most 104": func(c *Config) { c.Member, c.Units = "b"+strings.Repeat("x", 120), 9000 },
	} {
		w := newWorld(t)
		if !strings.HasPrefix(what, "bytes") {
			w.start("a")
			w.quiet()
		}
		b := w.start("b", opt)
		w.quiet()
		if b.exit == nil || b.exit.Err == nil || !strings.Contains(b.exit.Err.Error(), what) {
			t.Errorf("b ended with %+v; want an error with %q", b.exit, what)
		}
	}
}

func TestDeletedGroupEndsTheMember(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	clear(w.store.entries)
	w.store.changed = true
	w.quiet()
	if a.exit == nil || !errors.Is(a.exit.Err, registry.ErrNotFound) || len(a.running) > 0 {
		t.Errorf("a's exit is %+v and it runs %v; want ErrNotFound and nothing", a.exit, a.units())
	}
}

func TestCheckpointThatIsTooLargeLosesItsRanges(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	c := at(10)
	for i := range int64(100_000) {
		c.Positions[0].Done = append(c.Positions[0].Done, protocol.Range{1_000_000 + 2*i, 1_000_001 + 2*i})
	}
	a.post(Progress{Units: []UnitProgress{{Unit: 0, Run: a.running[0].Run, Checkpoint: c}}})
	w.pass(time.Second)
	got := w.load().Units[0].Checkpoint
	if got == nil || got.Positions[0].Next != 10 || got.Positions[0].Done != nil {
		t.Errorf("stored was %+v; want 10 without ranges", got)
	}
}

// The same events give the same effects.
func TestStepIsDeterministic(t *testing.T) {
	t.Parallel()
	trace := func() (out []string) {
		w := newWorld(t)
		a := w.start("a")
		for i := range 30 {
			switch i {
			case 3, 7:
				w.start(fmt.Sprint("b", i))
			case 12:
				w.kill(w.nodes[1])
			case 15:
				w.store.down = true
			case 22:
				w.store.down = false
			}
			a.work(3)
			w.pass(time.Second)
			for _, n := range w.nodes {
				out = append(out, fmt.Sprint(n.name, n.units(), n.reports))
			}
		}
		return out
	}
	one, two := trace(), trace()
	if !slices.Equal(one, two) {
		t.Errorf("two runs differ:\n%s\n\n%s", one[len(one)-1], two[len(two)-1])
	}
}
