package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// All that an engine does by time, through one timer in Run: arm sets it earlier, never later, and tick does
// whatever is due and arms it for what comes next. It includes two watches. The claim of a slow worker is
// taken back after patience, so that a slow handler holds up only its own record. And a handler without
// progress for too long makes the engine give the unit up, as does one that outlasts a drain and then its
// cancelled context.

const never = time.Hour

// arm makes Run's timer fire at t or earlier.
func (e *Engine) arm(t time.Time) {
	if !e.armed.IsZero() && !t.Before(e.armed) {
		return
	}
	e.armed = t
	select {
	case e.kick <- struct{}{}:
	default: // Run is going to look anyway
	}
}

// tick does what is due, and returns the time until something will be and whether Run must leave
// workers behind.
func (e *Engine) tick(now time.Time) (time.Duration, bool) {
	e.mu.Lock()
	defer e.unlock()
	if !e.armed.IsZero() && e.armed.After(now) {
		return e.armed.Sub(now), false
	}
	e.armed = time.Time{}
	e.expire(now)
	e.watch(now)
	if e.expel(now) {
		return never, true
	}
	if e.armed.IsZero() {
		return never, false
	}
	return max(0, e.armed.Sub(now)), false
}

// expire wakes records and inputs whose pause is over, and arms the timer for the others.
func (e *Engine) expire(now time.Time) {
	e.sched.expire(now)
	if due, ok := e.sched.nextRetry(); ok {
		e.arm(due)
	}
	for _, in := range e.inputs {
		if in.pausedUntil.IsZero() {
			continue
		}
		if in.pausedUntil.After(now) {
			e.arm(in.pausedUntil)
		} else {
			in.pausedUntil = time.Time{}
		}
	}
}

// warnOfStall logs that failing keys stop the reading, and when that is over.
func (e *Engine) warnOfStall() {
	e.mu.Lock()
	waiting, failing := e.sched.unfinished, len(e.sched.retries)
	stalled := e.phase == active && e.full()
	if !e.wasStalled { // other causes of a full bound are not logged
		stalled = stalled && !e.paused && failing > 0 && e.sched.ready == 0 && e.atWork() == 0
	}
	changed := stalled != e.wasStalled
	e.wasStalled = stalled
	e.mu.Unlock()
	switch {
	case !changed:
	case stalled:
		e.log.Warn("nothing more is read: too many records wait for failing ones of their key; see what the handler returns, or raise the bounds",
			"waiting", waiting, "failing", failing, "max_in_flight", e.cfg.MaxInFlight, "max_bytes", e.cfg.MaxBytes, "max_ranges", e.cfg.MaxRanges)
	default:
		e.log.Info("reading goes on")
	}
}

// watch looks for slow workers: after patience their claims are taken back, and after
// ProgressTimeout the unit is given up.
func (e *Engine) watch(now time.Time) {
	busy := false
	for _, w := range e.workers {
		if !w.busy {
			continue
		}
		busy = true
		if e.pace.hurried(w.limit) && now.Sub(w.begun) >= patience {
			e.reclaim(w, now)
			e.pace.reset()
			if !w.blocked {
				w.blocked = true
				e.blocked++
			}
		}
		e.watchdog(w, now)
	}
	e.watchOut(now)
	switch {
	case !busy:
		e.pace.reset()
	case e.pace.width < e.pace.full || e.pace.batch > 1:
		e.arm(now.Add(patience))
	}
}

func (e *Engine) watchdog(w *worker, now time.Time) {
	if e.cfg.ProgressTimeout == 0 || e.phase == stopped {
		return
	}
	if at := w.cursor.Load(); at != w.seen {
		w.seen, w.seenAt = at, now
	}
	if lasts := now.Sub(w.seenAt); lasts >= e.cfg.ProgressTimeout {
		e.giveUp(e.stuck(w, now), now)
		return
	}
	e.arm(w.seenAt.Add(e.cfg.ProgressTimeout))
}

// giveUp stops the unit because of a handler.
func (e *Engine) giveUp(why error, now time.Time) {
	e.fate = why
	e.enter(stopped)
	e.cancel(e.fate)
	e.drainBy = now.Add(e.cfg.AbandonAfter)
}

// stuck names the record that w is at.
func (e *Engine) stuck(w *worker, now time.Time) error {
	r := w.batch[max(0, min(int(w.cursor.Load()), w.limit)-1)].rec
	return &StuckError{Name: e.cfg.Name, Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, For: now.Sub(w.seenAt)}
}

// expel handles those that outlast a drain or a stop: their context is cancelled, and when that
// does not help they are left behind, which it reports.
func (e *Engine) expel(now time.Time) bool {
	switch {
	case e.drainBy.IsZero() || e.phase < draining:
		return false
	case e.drainBy.After(now):
		e.arm(e.drainBy)
		return false
	case e.phase == draining && !e.expelled:
		e.expelled = true
		e.cancel(fmt.Errorf("unit %s: the drain took longer than %s: %w", e.cfg.Name, e.cfg.DrainTimeout, context.DeadlineExceeded))
		e.drainBy = now.Add(e.cfg.AbandonAfter)
		e.arm(e.drainBy)
		return false
	}
	e.abandon(now)
	return true
}

// abandon leaves behind the remaining workers, and the records that are out.
func (e *Engine) abandon(now time.Time) {
	e.phase, e.abandoned = stopped, true
	if e.fate != nil {
		return
	}
	for _, w := range e.workers {
		if w.busy {
			e.fate = e.stuck(w, now)
			return
		}
	}
	if l := e.outs.oldest; l != nil {
		e.fate = e.unanswered(l, now)
		return
	}
	e.fate = fmt.Errorf("unit %s: a read has not ended %s after its context: %w", e.cfg.Name, e.cfg.AbandonAfter, fault.Unavailable)
}
