package core

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// What a store has forgotten was given before its present time, so no claim and no handoff may fall
// below that.
func TestNoEpochIsBelowTheStoresTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.clock = func() int64 { return 1_800_000_000_000 + w.now.Milliseconds() }
	floor := func() int64 { return protocol.NextEpoch(0, w.store.clock()) }
	claimed := floor()
	a := w.start("a")
	w.pass(time.Minute)
	handed := floor()
	b := w.start("b")
	w.quiet()
	w.complete()
	for _, n := range []struct {
		*node
		floor int64
	}{{a, claimed}, {b, handed}} {
		if len(n.running) != 4 {
			t.Errorf("%s runs %d units; want 4", n.name, len(n.running))
		}
		for u, r := range n.running {
			if r.Grant.Epoch < n.floor {
				t.Errorf("%s has unit %d in epoch %d; the store's time makes it %d at least", n.name, u, r.Grant.Epoch, n.floor)
			}
		}
	}
}
