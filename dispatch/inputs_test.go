package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// A unit stores one checkpoint, however many partitions it reads: what bounds it is shared by them.
func TestTheInputsOfAUnitShareTheBoundsOfItsCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, ranges = 600, 10
		a, b := newFakeLog(), newFakeLog()
		for i := range each { // a key is in one partition
			a.add(fmt.Sprintf("a%d", i), "", 0)
			b.add(fmt.Sprintf("b%d", i), "", 0)
		}
		fails := func(int64) bool { return true }
		two := Config{
			Inputs:    []Input{{Source: a}, {Partition: 1, Source: b}},
			MaxRanges: ranges,
			Handler: func(_ context.Context, r *Record) error {
				if fails(r.Offset) {
					return later{time.Hour}
				}
				return nil
			},
			Retry: Retry{HoldFor: 24 * time.Hour}, OnHeld: func(context.Context, *Record, Held) error { return later{time.Hour} },
		}
		e := mustNew(t, two)
		stop := launch(t, e)
		rest(time.Second)
		failing := 0
		for _, p := range e.Progress().Positions {
			failing += len(p.Failing)
		}
		if failing != protocol.MaxFailing {
			t.Errorf("the checkpoint names %d failing records; expected %d of the %d", failing, protocol.MaxFailing, 2*each)
		}
		_ = stop()

		fails = func(o int64) bool { return o%2 == 0 }
		e = mustNew(t, two)
		stop = launch(t, e)
		rest(time.Second)
		p := e.Progress().Positions
		if len(p) != 2 || len(p[0].Done) != ranges/2 || len(p[1].Done) != ranges/2 {
			t.Errorf("the checkpoint has the positions %+v; expected %d finished ranges in each", p, ranges/2)
		}
		_ = stop()
	})
}
