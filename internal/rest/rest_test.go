package rest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestResterGivesMemoryBackWhenIdle runs through the life of a daemon.
func TestResterGivesMemoryBackWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var allocated, rate, releases atomic.Int64
		r := Rester{
			allocated: func() uint64 { return uint64(allocated.Add(rate.Load())) },
			release:   func() { releases.Add(1) },
		}
		over := make(chan struct{})
		go func() { r.Run(ctx); close(over) }()
		for _, step := range []struct {
			what     string
			rate     int64 // bytes between two looks
			looks    int
			releases int64 // since the step before
			resting  bool
		}{
			{"busy as it starts", 100 << 20, 5, 0, false},
			{"nothing to do", 10 << 10, 1, 1, false},
			{"still nothing", 10 << 10, 20, turns - 1, true},
			{"a few records", 300 << 10, 10, 0, false},
			{"nothing of note was needed", 10 << 10, 20, 0, true},
			{"busy", worth, 3, 0, false},
			{"nothing to do again", 0, 100, turns, true},
		} {
			before := releases.Load()
			rate.Store(step.rate)
			time.Sleep(time.Duration(step.looks) * lookEvery)
			synctest.Wait()
			if got := releases.Load() - before; got != step.releases || r.Resting() != step.resting {
				t.Errorf("%s: memory was given back %d times, and resting is %v; expected %d and %v", step.what, got, r.Resting(), step.releases, step.resting)
			}
		}
		stop()
		<-over
	})
}

func TestTheRuntimeTellsWhatWasAllocated(t *testing.T) {
	t.Parallel()
	before := allocatedBytes()
	kept := make([][]byte, 64)
	for i := range kept {
		kept[i] = make([]byte, 64<<10)
	}
	if n := allocatedBytes() - before; n < 64*64<<10 {
		t.Errorf("%d bytes were allocated, says the runtime; expected %d and more", n, len(kept)*64<<10)
	}
}
