package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// A handler that answers later returns nil and leaves a Later with its record, which is then out: it has no
// worker, it counts as a handler at work, and nothing of its key begins before its answer.
//
// A Later is one attempt's: nodes are used again, Laters are not. So an answer that comes late or twice finds
// that its Later has one, and reaches no other record. Three goroutines may meet: the answering one, the worker
// whose handler returns, and that worker when it accounts for the record. Later.mu decides between the first
// two, Engine.mu between the first and the last; the second to come has the answer and knows it.

// Later is the answer that a handler owes for a record. Its methods may be called from any goroutine.
type Later struct {
	since time.Time   // when it was made, while the handler ran
	lost  func() bool // of the record

	// Of Record.Owe: whether a handler is at the attempt. An answer that nothing takes then gets an error.
	atWork func(Attempt) bool
	at     Attempt

	mu    sync.Mutex
	given bool
	err   error             // what was answered
	void  error             // the error of a later Answer
	after func(error) error // wrappers of the handler change the answer by it; written before take
	take  func(error) error // takes the answer, once the handler has returned; nil: not yet

	// Guarded by Engine.mu, of the engine that takes it:
	node        *node // while it is out
	prev, next  *Later
	known       bool // the answer came before the worker had accounted for the record
	knownAnswer error
}

// NewLater makes the answer that a handler leaves with its record r by Record.AnswerLater.
func NewLater(r *Record) *Later {
	l := &Later{since: time.Now()}
	if r.data != nil {
		l.lost = r.data.lost
	}
	return l
}

// Attempt names an attempt of a handler at a record.
type Attempt struct {
	Storage, Partition int
	Offset             int64
	Number             int // Record.Attempt
}

// Owe is NewLater and AnswerLater for callers that may come after the handler has returned, when r is another
// record: nil, unless a handler is at that attempt. Every call for an attempt gets the same.
func (r *Record) Owe(at Attempt) *Later {
	d := r.data
	if d == nil || d.atWork == nil || !d.atWork(at) {
		return nil
	}
	if r.late == nil {
		r.late = NewLater(r)
		r.late.atWork, r.late.at = d.atWork, at
	}
	return r.late
}

// NoLater belongs to no record: its Answer returns why.
func NoLater(why error) *Later { return &Later{given: true, void: why} }

var (
	errOut = errors.New("the answer comes later")

	errTwice = fmt.Errorf("the record was answered before, and the first answer counts: %w", fault.Conflict)
	errSaid  = fmt.Errorf("the handler returned an error or panicked, which was its answer: %w", fault.Conflict)
	errLate  = fmt.Errorf("the answer was asked for when the handler had returned, which was its answer: %w", fault.Invalid)
	errLost  = fmt.Errorf("the record is not this owner's any more, or its handler was given up; the answer counts for nothing and it is delivered again: %w", fault.Fenced)
)

// Answer reports the outcome of the record, as the return of a handler does: nil, or an error after which it is tried
// again. It may be called before the handler returns; then it counts if that returns nil, while this owner still has
// the record.
//
// The error is nil when the answer was taken; fault.Conflict when there was one before, or the handler returned an
// error; fault.Invalid when it was asked for too late (Record.Owe); fault.Fenced when the record has another owner,
// or the engine has given it up: then it is handled again, whatever the answer.
func (l *Later) Answer(err error) error {
	l.mu.Lock()
	if l.given {
		defer l.mu.Unlock()
		return l.void
	}
	l.given, l.err, l.void = true, err, errTwice
	take := l.take
	l.mu.Unlock()
	if take == nil { // the handler has not returned: its caller takes the answer then, if it may
		if l.lost != nil && l.lost() {
			return errLost
		}
		return l.untaken()
	}
	return take(l.concluded())
}

// untaken is the result of an answer that nothing has taken yet; nil: the handler has still to return.
func (l *Later) untaken() error {
	if l.atWork == nil || l.atWork(l.at) {
		return nil
	}
	l.mu.Lock() // it has returned by now: what it left was taken before that could be seen
	defer l.mu.Unlock()
	switch {
	case l.take != nil:
		return nil
	case errors.Is(l.void, errTwice):
		l.void = errLate
	}
	return l.void
}

// concluded returns the answer as the wrappers of the handler have changed it.
func (l *Later) concluded() error {
	if l.after == nil {
		return l.err
	}
	return l.after(l.err)
}

// end makes a Later worthless unless it has its answer; false: it has.
func (l *Later) end(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.given
	l.given = true
	if !was || l.take == nil {
		l.void = why
	}
	return !was
}

// handedTo sets what takes an answer still to come; false: it has come.
func (l *Later) handedTo(take func(error) error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take = take
	return !l.given
}

// AnswerLater makes l's answer that of a handler that returns nil. The handler calls it before it returns;
// until then the record that it was given stays valid.
func (r *Record) AnswerLater(l *Later) { r.late = l }

// Within makes answers count only until ctx ends: for callers of handlers other than an engine, whose records
// have that already.
func (r *Record) Within(ctx context.Context) {
	if r.data == nil || r.data.from == nil {
		d := &memory{lost: func() bool { return ctx.Err() != nil }}
		d.atWork = func(Attempt) bool { return !d.over.Load() }
		r.data = d
	}
}

// Late reports whether a handler that has just returned nil answers later.
func (r *Record) Late() bool { return r.late != nil }

// Then lets f see a later answer, and change it. f is called once: by Answer, by the worker when the answer came
// before the handler returned, or, with fault.Fenced, by the engine when it waits no longer. The f of an outer
// handler runs after those of inner ones.
func (r *Record) Then(f func(error) error) {
	l := r.late
	if inner := l.after; inner != nil {
		l.after = func(err error) error { return f(inner(err)) }
		return
	}
	l.after = f
}

// Wait returns the outcome of a handler that has returned err: if it answers later, it waits for the
// answer. When ctx ends it waits for grace longer, and then the error is that of ctx.
func (r *Record) Wait(ctx context.Context, err error, grace time.Duration) error {
	if d := r.data; d != nil && d.from == nil {
		d.over.Store(true)
	}
	l := r.late
	r.late = nil
	switch {
	case l == nil:
		return err
	case err != nil:
		l.end(errSaid)
		return err
	}
	answer := make(chan error, 1)
	if !l.handedTo(func(err error) error {
		answer <- err
		if ctx.Err() != nil {
			return errLost
		}
		return nil
	}) {
		return l.concluded()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(grace):
	}
	if l.end(errLost) {
		return context.Cause(ctx)
	}
	return <-answer
}

// returned notes that a handler has returned err, for the attempt whose answer l is; errOut: it comes later.
func (e *Engine) returned(n *node, l *Later, err error) error {
	if err != nil {
		l.end(errSaid)
		return err
	}
	l.node = n // only this goroutine looks at it before the next line
	if l.handedTo(func(err error) error { return e.cameBack(l, err) }) {
		n.rec.late = l
		return errOut
	}
	return l.concluded()
}

// sendOut notes that a record has left its worker without an answer. An answer that came meanwhile is
// returned.
func (e *Engine) sendOut(n *node, now time.Time) (known bool, answer error) {
	l := n.rec.late
	if l.known {
		n.rec.late = nil
		return true, l.knownAnswer
	}
	n.state = out
	e.outs.add(l)
	if e.cfg.ProgressTimeout > 0 {
		e.arm(now.Add(e.cfg.ProgressTimeout))
	}
	return false, nil
}

// cameBack takes an answer that came after the handler had returned.
func (e *Engine) cameBack(l *Later, err error) error {
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	frozen := e.frozen()
	if n := l.node; n.state == out {
		e.outs.remove(l)
		n.state, n.rec.late = claimed, nil
		if !frozen {
			done := e.done
			e.account(n, err, now)
			e.advancedSince(done)
			if e.phase == active || e.phase == ending {
				e.relieve(now)
			}
			e.compactIfFull()
		}
		e.closeIfOver()
	} else { // its worker is about to account for it
		l.known, l.knownAnswer = true, err
	}
	if frozen {
		return errLost
	}
	return nil
}

// frozen reports that no answer counts any more; the caller holds mu.
func (e *Engine) frozen() bool { return e.phase == stopped || e.lost() }

// tooLate is frozen for callers of Answer.
func (e *Engine) tooLate() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.frozen()
}

// isAt reports whether a handler is at an attempt.
func (e *Engine) isAt(at Attempt) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if !w.busy {
			continue
		}
		n := w.batch[max(0, min(int(w.cursor.Load()), w.limit)-1)]
		number := n.rec.Attempt
		if n.fail != nil {
			number = n.fail.attempts + 1
		}
		if at == (Attempt{n.rec.Storage, n.rec.Partition, n.rec.Offset, number}) {
			return true
		}
	}
	return false
}

// disown ends the attempts that are left without an answer: each Then learns that there is none, and reserved
// places are free again. A later answer counts for nothing.
func (e *Engine) disown() {
	e.mu.Lock()
	var left []*Later
	for l := e.outs.oldest; l != nil; l = l.next {
		left = append(left, l)
	}
	e.mu.Unlock()
	for _, l := range left {
		if l.end(errLost) && l.after != nil {
			_ = l.after(errLost) // nothing comes of it here
		}
	}
}

// watchOut gives the unit up when an answer takes longer than ProgressTimeout.
func (e *Engine) watchOut(now time.Time) {
	l := e.outs.oldest
	if l == nil || e.cfg.ProgressTimeout == 0 || e.phase == stopped {
		return
	}
	if now.Sub(l.since) >= e.cfg.ProgressTimeout {
		e.giveUp(e.unanswered(l, now), now)
		return
	}
	e.arm(l.since.Add(e.cfg.ProgressTimeout))
}

// unanswered names a record that is out.
func (e *Engine) unanswered(l *Later, now time.Time) error {
	r := &l.node.rec
	return &StuckError{Name: e.cfg.Name, Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, For: now.Sub(l.since), Out: true}
}

// outs are the records that are out, the oldest first. Each costs as much as its place from the end, which
// is the end where handlers leave theirs in the order in which they were called.
type outs struct {
	oldest, newest *Later
	count          int
}

func (o *outs) add(l *Later) {
	at := o.newest
	for at != nil && at.since.After(l.since) {
		at = at.prev
	}
	l.prev = at
	if at == nil {
		l.next, o.oldest = o.oldest, l
	} else {
		l.next, at.next = at.next, l
	}
	if l.next == nil {
		o.newest = l
	} else {
		l.next.prev = l
	}
	o.count++
}

func (o *outs) remove(l *Later) {
	if l.prev == nil {
		o.oldest = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		o.newest = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
	o.count--
}
