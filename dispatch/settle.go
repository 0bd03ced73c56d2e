package dispatch

import (
	"errors"
	"time"
)

// settleAll accounts for what w has run and makes it free.
func (e *Engine) settleAll(w *worker, now time.Time) {
	if w.late && !w.owes {
		e.reclaim(w, now)
	}
	e.settle(w, w.limit, now)
	clear(w.batch)
	w.busy = false
	e.running--
	if w.blocked {
		w.blocked = false
		e.blocked--
	}
	if e.phase == active || e.phase == ending {
		if w.late {
			e.pace.owed() // that says nothing of how long it takes
		} else {
			e.pace.took(w.limit, now.Sub(w.begun))
		}
		e.relieve(now)
	}
	e.compactIfFull()
}

// settle accounts for batch[:upto]. Once progress is frozen it changes nothing: from the moment the
// unit is lost, even before Run has noticed it.
func (e *Engine) settle(w *worker, upto int, now time.Time) {
	frozen := e.frozen()
	done := e.done
	for ; w.settled < upto; w.settled++ {
		n, err := w.batch[w.settled], w.errs[w.settled]
		e.permit(w, -1)
		if err != nil && errors.Is(err, errOut) {
			var known bool
			if known, err = e.sendOut(n, now); !known {
				continue
			}
		}
		switch {
		case frozen:
		case err != nil && errors.Is(err, errSkipped):
			e.sched.giveBack(w.batch[w.settled : w.settled+1])
		default:
			e.account(n, err, now)
		}
	}
	e.advancedSince(done)
}

// permit changes how many records w may send out beyond the running one. They count as handlers until they are
// accounted for.
func (e *Engine) permit(w *worker, more int) {
	more = max(more, -w.permits)
	w.permits += more
	e.permits += more
}

// account handles the answer of a handler; advancedSince has to follow.
func (e *Engine) account(n *node, err error, now time.Time) {
	if err == nil {
		e.finish(n)
		return
	}
	switch pause, spared := n.uncounted(err); {
	case !spared:
		e.fail(n, err, now)
	case pause > 0:
		e.spare(n, err, now.Add(pause), now)
	default:
		e.sched.pushBack(n)
	}
}

// spare holds a record until due, after an attempt that was none.
func (e *Engine) spare(n *node, err error, due, now time.Time) {
	if n.fail == nil {
		n.fail = &failure{since: now}
		n.rec.data.from.tracker.failing++
	}
	n.fail.err, n.fail.due, n.fail.pause = err, due, due.Sub(now)
	switch {
	case e.cfg.OnHeld == nil:
	case n.atTheEnd():
		e.giveAway(n, AtTheEnd, now)
	case !e.cfg.Retry.holds(due.Sub(n.fail.since)):
		e.giveAway(n, HeldLong, now)
	}
	e.sched.retry(n)
	e.arm(n.fail.due)
	e.relieve(now)
}

func (e *Engine) finish(n *node) {
	e.sched.finish(n)
	n.rec.data.from.tracker.finish(n)
	e.release(n.rec.data)
	e.retained -= nodeBytes
	e.pool.put(n)
	e.done++
}

// advancedSince calls advanced if records were finished since there were done of them.
func (e *Engine) advancedSince(done uint64) {
	if e.done != done {
		e.advanced()
	}
}

// askAgain is the pauses before OnHeld is called again. The policy's pauses are for the handler's
// destination: until OnHeld has taken a record, only memory has it.
func askAgain() *Retry { return &Retry{Initial: 100 * time.Millisecond, Max: 10 * time.Second} }

// uncounted reports whether an error of the handler makes the attempt none, and after which pause the record has its
// turn again.
func (n *node) uncounted(err error) (pause time.Duration, ok bool) {
	if n.fail != nil && n.fail.why != "" {
		return 0, false
	}
	return Uncounted(err)
}

// fail keeps a record for its next attempt, or for OnHeld.
func (e *Engine) fail(n *node, err error, now time.Time) {
	e.failed++
	if n.fail == nil {
		n.fail = &failure{since: now}
		n.rec.data.from.tracker.failing++
	}
	f := n.fail
	if f.attempts == 0 {
		f.since = now // what came before was none
	}
	if f.why != "" { // OnHeld has failed
		f.asked++
		f.due = now.Add(askAgain().pause(f.asked))
	} else {
		f.err = err
		f.attempts++
		e.judge(n, now)
		if e.cfg.OnHeld != nil {
			e.advanced() // an heir has to know
		}
	}
	e.sched.retry(n)
	e.arm(f.due)
	e.relieve(now)
}

// reclaim takes back what w has claimed and not started, and accounts for what it has finished:
// neither waits for the running record.
func (e *Engine) reclaim(w *worker, now time.Time) {
	if !w.busy {
		return
	}
	started := int(w.cursor.Swap(takenBack))
	if started >= w.limit { // it is at its last record, or done, or was taken back before
		if started < takenBack && w.limit > 0 {
			e.settle(w, min(started, w.limit+1)-1, now)
		}
		return
	}
	e.settle(w, max(0, started-1), now)
	if e.phase != stopped {
		e.sched.giveBack(w.batch[started:w.limit])
		e.permit(w, started-w.limit)
	}
	w.limit = started
}
