package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// Who shares the session hears that it is over before another is asked for, or the member would get it again.
func TestASessionIsLostBeforeAnotherIsOpened(t *testing.T) {
	t.Parallel()
	g, err := memregistry.New().Group("g")
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
