// Package rest gives memory back to the host when a daemon that was busy has nothing to do.
//
// The runtime keeps what it got for a while, and a process that does little collects its garbage every other
// minute: then it is as large as it was when it started, or when all of its subscriptions were behind. Each
// collection also halves stacks that were deep, so one is not enough.
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
	// little is how much a process allocates between two looks that does nothing.
	little = 256 << 10
	// worth is how much it has allocated since memory was given back before that is done again.
	worth = 8 << 20
	// turns is how often in a row memory is given back: after that stacks of 32 KiB are as small as they get.
	turns = 4
)

// Rester looks after the memory of this process. The zero value is ready.
type Rester struct {
	allocated func() uint64 // bytes since the process began; nil: what the runtime says
	release   func()        // gives memory back; nil: the runtime does
	started   func()        // lets go of what only the start needed; nil: forgetProgram
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
	started := r.started
	if started == nil {
		started = forgetProgram
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	owed, begun := 0, false
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
			if owed--; owed == 0 && !begun {
				started() // before the last time, as it allocates
				begun = true
			}
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
