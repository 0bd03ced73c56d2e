// Package sim runs groups of members through seeded histories full of faults, and judges each.
//
// The members are the real protocol core (group/core); everything around them is imagined: a
// linearizable store with sessions, a network between it and each member that loses, delays and
// repeats, a log, and workers that process the records of a unit with keys in parallel. One queue
// of events and one random source drive all of it, so a seed gives the same history each time, on
// every machine.
//
// A history has two parts. In the first, faults of the kinds that the seed chose come and go. Then
// all of them heal, and within bounded time every unit must be owned by a live member, every record
// must be processed and every checkpoint stored. internal/history watches from the first event on.
package sim

import (
	"errors"
	"fmt"
	"io"

	"github.com/ringfence/ringfence/internal/history"
)

// Config is what to run.
type Config struct {
	Seed  uint64
	Trace io.Writer // gets a line for each thing that happens; nil: nothing
	// Inputs lets units read several partitions each.
	Inputs bool
}

// Result is the outcome of a history.
type Result struct {
	Seed   uint64
	Hash   uint64 // over all that happened: the same seed gives the same
	Steps  int    // events of the queue
	Faults []Fault
	Outrun int // workers that met a higher epoch than theirs
	Report *history.Report
	Err    error // nil: every promise was kept
}

// Run runs the history of one seed.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	w.run()
	report := w.check.Finish(w.err == nil)
	err := errors.Join(w.err, report.Err(), w.calm(report))
	if err != nil {
		err = fmt.Errorf("seed %d (%s): %w", cfg.Seed, w.plan, err)
	}
	return Result{Seed: cfg.Seed, Hash: w.hash, Steps: w.steps, Faults: w.plan.kinds(), Outrun: w.outrun, Report: report, Err: err}
}
