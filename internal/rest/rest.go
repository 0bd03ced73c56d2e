// Package rest gives memory back to the host when a daemon that was busy has nothing to do.
//
// The Go runtime keeps its memory for a while, and an idle process collects its garbage only every other minute:
// until then it stays as large as at its start, or as when all of its subscriptions were behind. Each collection
// also halves deep stacks, so one is not enough.
package rest

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often it looks whether the process does anything.
	lookEvery = 2 * time.Second
	// little is the most that an idle process allocates between two looks.
	little = 256 << 10
	// worth is how much it allocates after memory was given back before that is done again.
	worth = 8 << 20
	// turns is how often in a row memory is given back: after that, stacks of 32 KiB are as small as they get.
	turns = 4
)

// Rester looks after the memory of this process. The zero value is ready.
type Rester struct {
	allocated func() uint64 // bytes since the process began; nil: what the runtime says
	release   func()        // gives memory back; nil: the runtime does
	resting   atomic.Bool
}

// Run looks after it until ctx ends.
func (r *Rester) Run(ctx context.Context) {
	allocated, release := r.allocated, r.release
	if allocated == nil {
		allocated = allocatedBytes
	}
	if release == nil {
		release = debug.FreeOSMemory
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	owed := 0
	last, freed := uint64(0), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now := allocated()
		quiet := now-last < little
		last = now
		if now-freed >= worth {
			owed, freed = turns, now
		}
		if quiet && owed > 0 {
			owed--
			release()
		}
		r.resting.Store(quiet && owed == 0)
	}
}

// Resting says whether the process does nothing, and all that it can do without was given back.
func (r *Rester) Resting() bool { return r.resting.Load() }

func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
