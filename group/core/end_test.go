package core

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// A worker that stores its checkpoints itself stores none for what lies behind its last record, the
// mark of a seal for one. It tells of the end once, and that may be long before the layout knows
// that it is the end, and just after a checkpoint of its own that the core has not seen.
func TestEndThatAWorkerTellsBeforeTheLayoutHasItOpensWhatFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	layout := func(end int64) Layout {
		return Layout{{Inputs: []UnitInput{{End: end}}}, {Inputs: []UnitInput{{Storage: 1, End: -1}}, From: 0, To: 1, Step: 1}}
	}
	a := w.start("a", func(c *Config) { c.Units, c.Layout, c.WorkersCommit = 2, layout(-1), true })
	w.pass(time.Second)
	if _, ok := a.running[0]; !ok || len(a.running) != 1 {
		t.Fatalf("a runs %v; expected unit 0 only", a.units())
	}
	put := registry.Put{Key: w.group.CheckpointKey(0), Value: registry.Encode(at(20))}
	if res := w.store.one(&registry.Txn{Puts: []registry.Put{put}, Quiet: true}); res.Err != nil {
		t.Fatal(res.Err)
	}
	a.work(21)
	w.pass(3 * time.Second)
	a.post(Grown{Layout: layout(21)})
	w.pass(time.Second)
	if _, ok := a.running[1]; !ok || len(a.running) != 1 {
		t.Errorf("a runs %v; expected unit 1, which waited for unit 0", a.units())
	}
	if c := w.load().Units[0].Checkpoint; c.Positions[0].Next != 21 {
		t.Errorf("the store has %+v; expected the end", c)
	}
}
