package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// refused decides what an error of the source means. No error ever skips a record, unless
// Config.OutOfRange says so.
func (e *Engine) refused(ctx context.Context, in *input, err error) {
	if errors.Is(err, fault.OutOfRange) && e.moveInto(ctx, in, err) {
		return
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

// moveInto moves an input with an unreadable offset into the readable range, when that is allowed.
func (e *Engine) moveInto(ctx context.Context, in *input, err error) bool {
	policy := e.cfg.OutOfRange
	if policy == "" && in.fresh { // it was trimmed between the look at its bounds and the first read
		policy = e.cfg.From
	}
	b, known := bounds(ctx, in, err)
	if policy == "" || !known {
		return false
	}
	to := b.First
	if policy == Latest {
		to = b.Next
	}
	e.mu.Lock()
	from := in.tracker.next
	moved := true
	switch {
	case to > from:
		in.tracker.advance(to)
	case in.tracker.head == nil:
		in.tracker.begin(protocol.Position{Next: to})
	default: // records above the end of the log are unfinished: it was replaced under us
		moved = false
	}
	e.advanced()
	e.mu.Unlock()
	if moved {
		e.log.Warn("the position can't be read any more and was moved: records may have been lost", "storage", in.storage,
			"partition", in.partition, "from", from, "to", to, "policy", string(policy))
	}
	return moved
}

// bounds is the readable range as the error has it, or else the source.
func bounds(ctx context.Context, in *input, err error) (commitlog.Bounds, bool) {
	var oor *commitlog.OutOfRangeError
	if errors.As(err, &oor) {
		return commitlog.Bounds{First: oor.First, Next: oor.End}, true
	}
	b, err := in.source.Bounds(ctx)
	return b, err == nil
}
