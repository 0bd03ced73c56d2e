package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// Who shares the session hears that it is over before another is asked for, or the member would get it again.
func TestASessionIsLostBeforeAnotherIsOpened(t *testing.T) {
	t.Parallel()
	g, err := protocol.NewGroup(memregistry.New(), "g")
	if err != nil {
		t.Fatal(err)
	}
	s := core.New(core.Config{
		Group: g, Topic: "t", Units: 1, Member: "a", Incarnation: "1", Assignor: assign.Sticky{},
		SessionTTL: 5 * time.Second, DrainTimeout: time.Second, CancelGrace: time.Second, CommitInterval: time.Second, Sweep: time.Minute,
	})
	now := time.Hour
	step := func(ev core.Event) []core.Effect {
		now += time.Millisecond
		return s.Step(core.Input{Now: now, Event: ev})
	}
	open := func(effects []core.Effect) int {
		return slices.IndexFunc(effects, func(e core.Effect) bool { _, ok := e.(core.OpenSession); return ok })
	}
	first := step(core.Tick{})
	at := open(first)
	if at < 0 {
		t.Fatalf("%v; want a session to be opened", first)
	}
	asked, _ := first[at].(core.OpenSession)
	step(core.SessionOpened{ID: asked.ID, Session: "s1", Lease: now + 5*time.Second})
	got := step(core.SessionLost{Session: "s1"})
	lost := slices.Index(got, core.Effect(core.LoseSession{Session: "s1"}))
	if lost < 0 || open(got) < lost {
		t.Errorf("%v; want the session lost, then another opened", got)
	}
}

// A member that is stopped before it knows whether it is in waits for the answer, and takes its entry away: the end
// of its session would interrupt all who share it. It waits for a moment only.
func TestAMemberThatIsStoppedAsItJoinsWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{true, false} {
		reg := memregistry.New()
		g, err := protocol.NewGroup(reg, "g")
		if err != nil {
			t.Fatal(err)
		}
		session, err := reg.OpenSession(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s := core.New(core.Config{
			Group: g, Topic: "t", Units: 1, Member: "a", Incarnation: "1", Assignor: assign.Sticky{},
			SessionTTL: time.Minute, DrainTimeout: time.Second, CancelGrace: time.Second, CommitInterval: time.Second, Sweep: time.Minute,
		})
		now := time.Hour
		var exit *core.Exit
		var held []core.Apply // calls without an answer yet
		var step func(core.Event)
		step = func(ev core.Event) {
			now += time.Millisecond
			for _, e := range s.Step(core.Input{Now: now, Event: ev}) {
				switch e := e.(type) {
				case core.OpenSession:
					step(core.SessionOpened{ID: e.ID, Session: session.ID(), Lease: now + time.Minute})
				case core.Load:
					st, err := g.Load(t.Context(), true)
					step(core.Loaded{ID: e.ID, State: st, Err: err})
				case core.Apply:
					held = append(held, e)
				case core.Exit:
					exit = &e
				}
			}
		}
		step(core.Tick{})
		if len(held) != 1 {
			t.Fatalf("%d calls; want the join", len(held))
		}
		step(core.Stop{})
		if exit != nil {
			t.Fatalf("it left without the answer to its join: %+v", *exit)
		}
		for answered && exit == nil && len(held) > 0 {
			call := held[0]
			held = held[1:]
			res, err := reg.Apply(t.Context(), call.Txns)
			step(core.Applied{ID: call.ID, Results: res, Err: err})
		}
		if !answered {
			now += time.Second
			step(core.Tick{})
		}
		if exit == nil || exit.Err != nil || exit.Doubt == answered || (exit.Withdraw != nil) != answered {
			t.Errorf("answered %v: it left with %+v; want its entry to be taken away when it knows of it, else the end of the session", answered, exit)
		}
	}
}
