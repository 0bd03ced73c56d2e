package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// refused decides what an error of the source means. No error ever skips a record.
func (e *Engine) refused(ctx context.Context, in *input, err error) {
	if in.fresh && errors.Is(err, fault.OutOfRange) && e.place(ctx, in) == nil {
		return // its first record was trimmed between the look at the bounds and the first read
	}
	for _, final := range []error{fault.OutOfRange, fault.Corrupt, fault.NotFound, fault.Closed, fault.Invalid} {
		if errors.Is(err, final) {
			e.doom(in, err)
			return
		}
	}
	e.mu.Lock()
	pause := e.cfg.Retry.pause(in.failures + 1)
	e.hold(in, pause)
	e.mu.Unlock()
	if in.trouble.tell(time.Now()) {
		e.log.Warn("reading failed; it is tried again until it works", "storage", in.storage, "partition", in.partition,
			"offset", in.tracker.next, "tries", in.trouble.tries, "for", time.Since(in.trouble.since).Round(time.Second), "error", err)
	}
}

// answered ends the trouble with a source.
func (e *Engine) answered(in *input) {
	if in.trouble.tries > 0 {
		e.log.Info("reading works again", "storage", in.storage, "partition", in.partition,
			"tries", in.trouble.tries, "for", time.Since(in.trouble.since).Round(time.Second))
	}
	in.trouble = trouble{}
}

// trouble is a row of failed reads. The first one is logged, and again the longer it lasts: a stuck
// reader must not look like one that has nothing to do.
type trouble struct {
	tries int
	since time.Time
	told  int // how often
}

// tellAfter is when trouble is logged again; after the last of them as often as it is long.
var tellAfter = []time.Duration{0, 15 * time.Second, time.Minute, 5 * time.Minute}

// tell counts a failure and reports whether to log it.
func (t *trouble) tell(now time.Time) bool {
	if t.tries++; t.tries == 1 {
		t.since = now
	}
	last := len(tellAfter) - 1
	due := tellAfter[min(t.told, last)] * time.Duration(max(1, t.told-last+1))
	if now.Sub(t.since) < due {
		return false
	}
	t.told++
	return true
}

// doom ends the unit once all that was read is handled. Run returns why.
func (e *Engine) doom(in *input, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != active {
		return
	}
	e.fate = fmt.Errorf("unit %s: the next record of storage %d partition %d can't be read: %w", e.cfg.Name, in.storage, in.partition, err)
	e.enter(ending)
}
