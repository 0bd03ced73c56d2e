package core

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// A receiver keeps the highest token of each key, so what hands out a key starts above all epochs in which the key may
// have been handed out. The store of these tests has no time: an epoch says nothing about those of other units.

// follows is a layout of a finished unit, and one that comes after it.
func follows(c *Config) {
	c.Units, c.Layout = 2, Layout{
		{Inputs: []UnitInput{{End: 2}}},
		{Inputs: []UnitInput{{Storage: 1, End: -1}}, From: 0, To: 1, Step: 1},
	}
}

func TestUnitStartsAboveTheEpochsOfThoseBeforeIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", follows)
	w.pass(time.Second)
	for range 3 { // its epoch rises
		must(t, w.group.Seek(t.Context(), 0, at(0), "test"))
		w.pass(time.Second)
	}
	was, waits := w.load().Units[0].Owner.Epoch, w.load().Units[1].Owner.Epoch
	if waits >= was {
		t.Fatalf("unit 0 is in epoch %d, unit 1 waits in %d; expected a lower one", was, waits)
	}
	a.work(2)
	w.pass(time.Second)
	if r, ok := a.running[1]; !ok || r.Grant.Epoch <= was {
		t.Errorf("unit 1 runs %v, in epoch %d; expected one above %d", ok, r.Grant.Epoch, was)
	}
}

// Else it would raise its epoch over those of later units, and their owners theirs over its own, without end.
func TestPassedUnitIsLetGoByAnOwnerThatHasNotHeardItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) { follows(c); c.Layout[0].Inputs[0].End = -1 })
	w.pass(time.Second)
	a.work(2)
	w.pass(time.Second)
	meta := *w.load().Meta
	meta.First = 1
	if res := w.store.one(&registry.Txn{Puts: []registry.Put{{Key: w.group.MetaKey(), Value: registry.Encode(meta)}}}); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.pass(time.Second)
	if _, runs := a.running[0]; runs || w.load().Units[0].Owner.Member != "" {
		t.Errorf("unit 0 runs %v, and its owner is %q; expected none", runs, w.load().Units[0].Owner.Member)
	}
}

func TestUnitStartsAboveTheEpochsOfRetiredOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", follows)
	w.pass(time.Second)
	definition := registry.Check{Key: "topics/t"}
	meta := *w.load().Meta
	meta.First, meta.Retired = 1, 77
	if res := w.store.one(&registry.Txn{
		Checks: []registry.Check{definition}, Puts: []registry.Put{{Key: w.group.MetaKey(), Value: registry.Encode(meta)}},
		Deletes: []string{w.group.OwnerKey(0), w.group.CheckpointKey(0)},
	}); res.Err != nil {
		t.Fatal(res.Err)
	}
	w.pass(time.Second)
	if r, ok := a.running[1]; !ok || r.Grant.Epoch <= 77 {
		t.Errorf("unit 1 runs %v, in epoch %d; expected one above 77", ok, r.Grant.Epoch)
	}
}

// Between the reading by which a unit is claimed and the claim, the one before it may be sent back.
func TestUnitIsLookedAtAgainBetweenItsClaimAndItsStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", follows)
	w.pass(time.Second)
	a.work(2)
	w.pass(time.Second)
	a.post(Stop{})
	w.pass(time.Second)
	b := w.start("b", follows)
	sought := false
	w.store.onApply = func(key string) {
		if key == w.group.OwnerKey(1) && !sought {
			sought = true
			must(t, w.group.Seek(t.Context(), 0, at(0), "test"))
		}
	}
	w.pass(time.Second)
	if b.starts[1] != 0 || b.starts[0] != 1 || !sought {
		t.Errorf("sought %v, unit 0 started %d times, unit 1 %d times; expected unit 0 only, which was sent back", sought, b.starts[0], b.starts[1])
	}
}

// A member that heard nothing while the unit before was sent back, handed out and finished once more goes on in an
// epoch that receivers refuse.
func TestUnitGoesOnAboveAnEarlierOneThatWasSentBackUnheard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", follows)
	w.pass(time.Second)
	a.work(2)
	w.pass(time.Second)
	first := a.running[1].Grant.Epoch
	for range 9 {
		must(t, w.group.Seek(t.Context(), 0, at(2), "test")) // as if it had been finished again
	}
	w.pass(time.Second)
	last := w.load().Units[0].Checkpoint.Epoch
	if r, ok := a.running[1]; !ok || r.Grant.Epoch <= last || first > last || !strings.Contains(r.Why, "its keys were handed out in epoch") {
		t.Errorf("unit 1 ran in epoch %d and runs %v, in %d: %q; expected one above %d", first, ok, r.Grant.Epoch, r.Why, last)
	}
}

// An earlier unit that was sent back starts above those that had begun behind it, be all units of its storage topic
// finished, and passed, or not.
func TestSoughtUnitStartsAboveTheEpochsOfThoseAfterIt(t *testing.T) {
	t.Parallel()
	behind := LayoutUnit{Inputs: []UnitInput{{Storage: 1, End: -1}}, From: 0, To: 1, Step: 1}
	for name, layout := range map[string]Layout{
		"passed":     {{Inputs: []UnitInput{{End: 2}}}, behind},
		"not passed": {{Inputs: []UnitInput{{End: 2}}}, {Inputs: []UnitInput{{Partition: 1, End: 9}}}, behind},
	} {
		w, last := newWorld(t), len(layout)-1
		a := w.start("a", func(c *Config) { c.Units, c.Layout = len(layout), layout })
		w.pass(time.Second)
		a.work(2)
		w.pass(time.Second)
		for range 9 {
			must(t, w.group.Seek(t.Context(), last, at(0), "test"))
		}
		w.pass(time.Second)
		later := a.running[last].Grant.Epoch
		must(t, w.group.Seek(t.Context(), 0, at(0), "test"))
		w.pass(time.Second)
		if r, ok := a.running[0]; !ok || r.Grant.Epoch <= later {
			t.Errorf("%s: unit 0 runs %v, in epoch %d; expected one above %d", name, ok, r.Grant.Epoch, later)
		}
	}
}

// … also where its new owner has not heard of the later units.
func TestSoughtUnitStartsAboveTheEpochsOfUnknownUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", follows)
	w.pass(time.Second)
	a.work(2)
	w.pass(time.Second)
	for range 9 {
		must(t, w.group.Seek(t.Context(), 1, at(0), "test"))
	}
	w.pass(time.Second)
	later := a.running[1].Grant.Epoch
	a.post(Stop{})
	w.pass(time.Second)
	must(t, w.group.Seek(t.Context(), 0, at(0), "test"))
	b := w.start("b", func(c *Config) { c.Units, c.Layout = 1, Layout{{Inputs: []UnitInput{{End: -1}}}} })
	w.pass(time.Second)
	if r, ok := b.running[0]; !ok || r.Grant.Epoch <= later {
		t.Errorf("unit 0 runs %v, in epoch %d; expected one above %d", ok, r.Grant.Epoch, later)
	}
}

// A unit in which there was nothing parts those before it from those behind it, and hands nothing out itself: it passes
// on what they did.
func TestUnitStartsAboveTheEpochsOfUnitsBeyondAnEmptyOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(c *Config) {
		c.Units, c.Layout = 3, Layout{
			{Inputs: []UnitInput{{End: 2}}},
			{Inputs: []UnitInput{{Storage: 1, End: 0}}, From: 0, To: 1, Step: 1},
			{Inputs: []UnitInput{{Storage: 2, End: -1}}, From: 1, To: 2, Step: 1},
		}
	})
	w.pass(time.Second)
	for range 3 { // its epoch rises
		must(t, w.group.Seek(t.Context(), 0, at(0), "test"))
		w.pass(time.Second)
	}
	before := w.load().Units[0].Owner.Epoch
	a.work(2)
	w.pass(time.Second)
	if r, ok := a.running[2]; !ok || r.Grant.Epoch <= before {
		t.Fatalf("unit 2 runs %v, in epoch %d; expected one above %d", ok, r.Grant.Epoch, before)
	}
	for range 9 {
		must(t, w.group.Seek(t.Context(), 2, at(0), "test"))
	}
	w.pass(time.Second)
	behind := a.running[2].Grant.Epoch
	must(t, w.group.Seek(t.Context(), 0, at(0), "test"))
	w.pass(time.Second)
	if r, ok := a.running[0]; !ok || r.Grant.Epoch <= behind {
		t.Errorf("unit 0 runs %v, in epoch %d; expected one above %d", ok, r.Grant.Epoch, behind)
	}
}
