package core

import (
	"reflect"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// positions are those of partitions 0, 1, … of the first storage topic; -1: none.
func positions(next ...int64) protocol.Checkpoint {
	var c protocol.Checkpoint
	for p, n := range next {
		if n >= 0 {
			c.Positions = append(c.Positions, protocol.Position{Partition: p, Next: n})
		}
	}
	return c
}

// tell lets the worker of unit 0 tell how far it got.
func (n *node) tell(c protocol.Checkpoint) {
	if first := c.Position(0, 0); first != nil {
		n.progress[0] = first.Next
	}
	n.post(Progress{Units: []UnitProgress{{Run: n.running[0].Run, Checkpoint: c}}})
}

// two is a unit that reads two partitions, and one that comes after it.
func two(ends ...int64) Layout {
	return Layout{
		{Inputs: []UnitInput{{End: ends[0]}, {Partition: 1, End: ends[1]}}},
		{Inputs: []UnitInput{{Storage: 1, End: -1}}, From: 0, To: 1, Step: 1},
	}
}

func TestAUnitIsFinishedWhenAllThatItReadsIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Units, c.Layout = 2, two(20, 30) })
	w.pass(time.Second)
	a.tell(positions(20, 29))
	w.pass(time.Second)
	if _, ok := a.running[1]; ok {
		t.Fatal("unit 1 runs though unit 0 has a record left in its second partition")
	}
	a.tell(positions(-1, 30))
	w.pass(3 * time.Second)
	if _, ok := a.running[1]; !ok {
		t.Errorf("a runs %v; expected unit 1", a.units())
	}
	if got := w.load(); got.Meta.First != 1 {
		t.Errorf("the group is at unit %d; expected 1", got.Meta.First)
	}
}

func TestAUnitGoesOnWhileAnyPartitionOfItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Units, c.Layout = 2, two(20, -1) })
	w.pass(time.Second)
	a.tell(positions(20, 1000))
	w.pass(3 * time.Second)
	if _, ok := a.running[0]; !ok || len(a.running) != 1 {
		t.Errorf("a runs %v; expected unit 0 only", a.units())
	}
	a.post(Grown{Layout: two(20, 1000)})
	w.pass(3 * time.Second)
	if _, ok := a.running[1]; !ok || len(a.running) != 1 {
		t.Errorf("a runs %v; expected unit 1 only", a.units())
	}
}

func TestWhatAWorkerTellsNothingOfStaysStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Units, c.Layout = 2, two(-1, -1) })
	w.pass(time.Second)
	for i, step := range []struct{ told, want protocol.Checkpoint }{
		{positions(-1, 5), positions(-1, 5)},
		{positions(3), positions(3, 5)},
		{positions(4), positions(4, 5)},
		{positions(-1, 6), positions(4, 6)},
		{positions(7, 8), positions(7, 8)},
	} {
		a.tell(step.told)
		w.pass(time.Second)
		if got := w.load().Units[0].Checkpoint.Positions; !reflect.DeepEqual(got, step.want.Positions) {
			t.Errorf("after step %d the store has %v; expected %v", i, got, step.want.Positions)
		}
	}
}
