package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// A worker takes Engine.mu for a whole claim of records, not for each: one lock to take them and one to
// account for them. The word cursor makes that safe: worker and engine share only it while a claim is
// run. The worker adds one to it to start a record; the engine puts takenBack there to take back the
// rest. Whichever comes first has the record, so each is run once, and a slow handler holds up itself
// and none of those behind it in its claim.
//
// So a worker can't rely on its claim: another one may run what it has not started, after the running
// record. The schedule keeps their order, not the claim: a record that was taken back waits again behind
// the leader of its key, and one whose leader has failed is skipped.
//
// The engine also accounts for what such a worker has finished: errs of the records before the running
// one, which it wrote before it moved cursor on.

// worker is one goroutine of the pool. It runs claimed records, or reads, or rests.
type worker struct {
	wake  chan struct{} // capacity 1: one send for each time it is taken off the resting ones
	fresh bool          // its goroutine is to be started

	// cursor counts the records of batch that were started; the one before it is running. To take
	// back the rest, the engine swaps in takenBack, which the worker's next step runs into.
	cursor atomic.Int64
	batch  []*node
	errs   []error // by record of batch; published by cursor
	late   bool    // a record is answered later; unless owes, it is the last one, and the rest of the batch is given back
	owes   bool    // all records of batch may be out at once

	// Guarded by Engine.mu:
	busy    bool
	blocked bool      // for longer than patience
	limit   int       // batch[limit:] was taken back
	permits int       // of Engine.permits, those of batch
	settled int       // batch[:settled] is accounted for
	begun   time.Time // when the batch was
	seen    int64     // the watchdog's last look at cursor
	seenAt  time.Time // when it changed
}

const takenBack = 1 << 40

// errSkipped marks a claimed record that must wait for an earlier one of its key.
var errSkipped = errors.New("skipped")

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit)")

// work is the life of a worker. hctx is the handlers' context, rctx that of reads.
func (e *Engine) work(hctx, rctx context.Context, w *worker) {
	defer func() {
		if v := recover(); v != nil {
			panic(v) // not a handler's: a bug, and mu may be locked
		}
		e.leave(w)
	}()
	e.mu.Lock()
	for {
		switch in := e.readable(); {
		case e.canRun():
			e.claim(w)
			e.unlock()
			w.run(hctx, e)
			e.mu.Lock()
			e.settleAll(w, time.Now())
		case in != nil:
			e.take(in)
			e.unlock()
			e.read(rctx, in)
			e.mu.Lock()
			in.busy = false
		case e.over():
			e.unlock()
			return
		default:
			e.resting = append(e.resting, w)
			e.unlock()
			<-w.wake
			e.mu.Lock()
		}
	}
}

// leave takes a worker out of the pool.
func (e *Engine) leave(w *worker) {
	e.mu.Lock()
	if w.busy { // the handler ended its goroutine; see runtime.Goexit
		e.reclaim(w, time.Now())
		w.errs[w.limit-1] = errExited
		e.settleAll(w, time.Now())
	}
	e.workers = slices.DeleteFunc(e.workers, func(x *worker) bool { return x == w })
	e.closeIfOver()
	abandoned := e.abandoned
	e.unlock()
	if abandoned { // Run did so before this one came back
		e.disown()
	}
}

// closeIfOver signals Run that the last worker has left, and no record is out.
func (e *Engine) closeIfOver() {
	if len(e.workers) == 0 && e.outs.count == 0 && e.over() && !e.closed {
		e.closed = true
		close(e.gone)
	}
}

// unlock releases mu and, when there is work for one more worker, wakes or starts one; that one
// does the same, so that wake-ups spread without a long hold of the lock.
func (e *Engine) unlock() {
	w, start := e.helper(), e.start
	e.mu.Unlock()
	switch {
	case w == nil:
	case w.fresh:
		w.fresh = false
		start(w)
	default:
		w.wake <- struct{}{}
	}
}

func (e *Engine) helper() *worker {
	if e.start == nil || !e.canRun() && e.readable() == nil && (!e.over() || len(e.resting) == 0) {
		return nil
	}
	if k := len(e.resting) - 1; k >= 0 {
		w := e.resting[k]
		e.resting = e.resting[:k]
		return w
	}
	if len(e.workers) >= e.cfg.Concurrency+len(e.inputs) {
		return nil
	}
	w := &worker{wake: make(chan struct{}, 1), fresh: true}
	e.workers = append(e.workers, w)
	return w
}

// canRun reports whether a handler may be started now.
func (e *Engine) canRun() bool {
	return e.sched.ready > 0 && (e.phase == active || e.phase == ending) && (!e.paused || e.one) &&
		e.atWork() < e.atOnce() && e.running-e.blocked < e.pace.width
}

// atWork counts the handlers at work, with those that may be before the next look.
func (e *Engine) atWork() int { return e.running + e.outs.count + e.permits }

// atOnce is how many handlers may run at the same time.
func (e *Engine) atOnce() int {
	if e.most > 0 {
		return min(e.most, e.cfg.Concurrency)
	}
	return e.cfg.Concurrency
}

// over reports whether idle workers leave.
func (e *Engine) over() bool {
	switch e.phase {
	case draining, stopped:
		return true
	case ending:
		return e.sched.ready == 0
	default:
		return false
	}
}

// claim gives w records to run.
func (e *Engine) claim(w *worker) {
	limit := e.pace.batch
	if e.paused {
		limit, e.one = 1, false
	}
	if w.owes = e.pace.late; w.owes {
		limit = min(limit, e.atOnce()-e.atWork())
	}
	if w.batch = e.sched.take(w.batch[:0], limit, w.owes); w.owes {
		e.permit(w, len(w.batch)-1)
	}
	for len(w.errs) < len(w.batch) {
		w.errs = append(w.errs, nil)
	}
	now := time.Now()
	w.limit, w.settled, w.begun, w.seen, w.seenAt = len(w.batch), 0, now, 1, now
	w.busy, w.late = true, false
	w.cursor.Store(0)
	e.running++
	if e.pace.hurried(len(w.batch)) {
		e.arm(now.Add(patience))
	}
	if e.cfg.ProgressTimeout > 0 {
		e.arm(now.Add(e.cfg.ProgressTimeout))
	}
}

// run handles the records of the batch until it ends or the rest is taken back.
func (w *worker) run(ctx context.Context, e *Engine) {
	var bad *Record // the last that failed
	for {
		i := int(w.cursor.Add(1)) - 1
		if i >= len(w.batch) {
			return
		}
		n := w.batch[i]
		if bad != nil && n.keyed && e.sched.leaders.sameKey(bad, &n.rec) {
			w.errs[i] = errSkipped
			continue
		}
		err := e.handle(ctx, n)
		w.errs[i] = err
		if err == nil {
			continue
		}
		if !errors.Is(err, errOut) {
			bad = &n.rec
		} else if w.late = true; !w.owes {
			return
		}
	}
}

// handle calls the handler, or OnHeld in its place, for one record.
func (e *Engine) handle(ctx context.Context, n *node) (err error) {
	r, returned := &n.rec, false
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the handler panicked: %v", v)
			e.log.Error("a handler panicked", "storage", n.rec.Storage, "partition", n.rec.Partition, "offset", n.rec.Offset,
				"panic", v, "stack", string(debug.Stack()))
		} else if !returned {
			err = errExited
		}
		if l := r.late; l != nil {
			r.late = nil
			err = e.returned(n, l, err)
		}
	}()
	if f := n.fail; f != nil {
		again := n.rec
		r, again.late = &again, nil
		if again.Attempt = f.attempts + 1; f.why != "" {
			err = e.cfg.OnHeld(ctx, r, Held{Attempts: f.attempts, Since: f.since, Next: f.next, Err: f.err, Why: f.why})
			returned = true
			return err
		}
	}
	err = e.cfg.Handler(ctx, r)
	returned = true
	return err
}
