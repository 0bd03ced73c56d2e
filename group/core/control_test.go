package core

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

func TestAPauseOfSomeUnitsStopsThoseAndNoOthers(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	must(t, w.group.Pause(t.Context(), "me", 2, 5))
	w.pass(time.Second)
	if got, want := a.units(), []int{0, 1, 3, 4, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("%v run while 2 and 5 are paused; expected %v", got, want)
	}
	must(t, w.group.Resume(t.Context(), "me", 2, 5))
	w.pass(time.Second)
	w.complete()
}

// The end of one run is no end of another, however late it is told, and how far it got is not how
// far the unit is.
func TestTheEndOfAnotherRunIsNotHeeded(t *testing.T) {
	t.Parallel()
	w, a := alone(t)
	a.work(5)
	w.pass(time.Second)
	late := at(500)
	a.post(UnitEnded{Unit: 0, Run: a.running[0].Run + 1000, Checkpoint: &late})
	a.work(1)
	w.pass(time.Second)
	if got := w.load().Units[0].Checkpoint.Positions[0].Next; got != 6 || a.starts[0] != 1 {
		t.Errorf("unit 0 is at %d after %d starts; expected 6 after one", got, a.starts[0])
	}
}

// A static member that is back just when its time was up has not lost its place.
func TestAStaticMemberThatIsBackInTimeStaysOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Static, c.RestartWindow = true, 10*time.Second })
	w.start("b")
	w.pass(time.Second)
	w.kill(a)
	key := w.group.MemberKey("a")
	w.store.onApply = func(first string) {
		if first == key {
			w.store.entries[key] = registry.Entry{Key: key, Value: registry.Encode(protocol.Member{ID: "a", Incarnation: "a9"}), Version: "back", Session: "another"}
		}
	}
	w.pass(15 * time.Second)
	w.store.onApply = nil
	if _, back := w.store.entries[key]; !back {
		t.Fatal("nobody ended the time that the member had")
	}
	if _, ok := w.store.entries[w.group.StaticKey("a")]; !ok {
		t.Error("a member that is back is static no longer")
	}
}
