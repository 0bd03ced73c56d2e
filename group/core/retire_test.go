package core

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// A member that has not heard yet that units were retired finds them without checkpoints. They are
// passed, and stay finished: what comes behind them runs on.
func TestRetiredUnitsStayFinishedForWhoHasNotHeardOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	layout := Layout{{Inputs: []UnitInput{{End: 20}}}, {Inputs: []UnitInput{{Storage: 1, End: -1}}, From: 0, To: 1, Step: 1}}
	a := w.start("a", func(c *Config) { c.Units, c.Layout = 2, layout })
	w.pass(time.Second)
	if _, ok := a.running[1]; ok || len(a.running) != 1 {
		t.Fatalf("a runs %v; expected unit 0", a.units())
	}
	a.work(20)
	w.pass(5 * time.Second)
	if _, ok := a.running[1]; !ok || len(a.running) != 1 {
		t.Fatalf("a runs %v; expected unit 1", a.units())
	}
	run := a.running[1]
	g := registry.New(w.store)
	group, err := protocol.NewGroup(g, w.group.Name())
	if err == nil {
		err = group.Retire(t.Context(), w.load().Meta.Topic, 1, registry.Check{Key: "topics/none"})
	}
	must(t, err)
	a.post(Changed{})
	w.pass(10 * time.Second)
	if got, ok := a.running[1]; !ok || len(a.running) != 1 || got != run {
		t.Errorf("a runs %v, unit 1 as %v; expected %v to go on", a.units(), got, run)
	}
	if st := w.load(); st.Meta.First != 1 || st.Units[0].OwnerVersion != "" || st.Units[0].Checkpoint != nil {
		t.Errorf("the store has %+v, %+v", st.Meta, st.Units)
	}
}
