package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// A handler that answers later returns nil and leaves a Later with its record, which is then out: no worker has
// it, it counts as a handler at work, and nothing of its key begins before it has its answer.
//
// A Later is one attempt's: nodes are used again, Laters are not, so an answer that comes late or twice finds
// that its Later has one, and reaches no other record. Three may meet: who answers, the worker whose handler
// returns, and that worker when it accounts for the record. Later.mu decides between the first two, Engine.mu
// between the first and the last; whoever comes second has the answer and knows that it does.

// Later is the answer that a handler owes for a record. Its methods may be called from any goroutine.
type Later struct {
	since time.Time   // when it was made, which is while the handler ran
	lost  func() bool // of the record

	// Of Record.Owe: whether a handler is at the attempt, so that who answers one that nobody takes is told.
	atWork func(Attempt) bool
	at     Attempt

	mu    sync.Mutex
	given bool
	err   error             // what was answered
	void  error             // what a later Answer is told
	after func(error) error // what others than the handler make of it; written before take
	take  func(error) error // who takes it, once the handler has returned; nil: nobody yet

	// Guarded by Engine.mu, of the engine that takes it:
	node        *node // while it is out
	prev, next  *Later
	known       bool // it came before the worker had accounted for the record
	knownAnswer error
}

// NewLater is what a handler leaves with its record r by Record.AnswerLater.
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

// Owe is NewLater and AnswerLater for who may come when the handler has returned, and r is another record's: nil,
// unless a handler is at that attempt. Who has asked before gets the same.
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

// NoLater is one that belongs to no record: Answer returns why.
func NoLater(why error) *Later { return &Later{given: true, void: why} }

var (
	errOut = errors.New("the answer comes later")

	errTwice = fmt.Errorf("the record was answered before, and the first answer counts: %w", fault.Conflict)
	errSaid  = fmt.Errorf("the handler returned an error or panicked, which was its answer: %w", fault.Conflict)
	errLate  = fmt.Errorf("the answer was asked for when the handler had returned, which was its answer: %w", fault.Invalid)
	errLost  = fmt.Errorf("the record is not this owner's any more, or its handler was given up; the answer counts for nothing and it is delivered again: %w", fault.Fenced)
)

// Answer says what became of the record, as the return of a handler does: nil, or an error after which it is
// tried again. It may be called before the handler returns; then it counts if that returns nil, while the record
// is still this owner's.
//
// The answer is nil when it was taken; fault.Conflict when there was one before, or the handler returned an
// error; fault.Invalid when it was asked for too late (Record.Owe); fault.Fenced when the record is not this owner's any more, or the engine has given it up: then it
// is handled again, whatever was answered.
func (l *Later) Answer(err error) error {
	l.mu.Lock()
	if l.given {
		defer l.mu.Unlock()
		return l.void
	}
	l.given, l.err, l.void = true, err, errTwice
	take := l.take
	l.mu.Unlock()
	if take == nil { // the handler has not returned: who called it takes the answer then, if it may
		if l.lost != nil && l.lost() {
			return errLost
		}
		return l.untaken()
	}
	return take(l.concluded())
}

// untaken is what who answers is told when nobody has taken the answer yet; nil: the handler has still to return.
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

// concluded is the answer as those have made it whose business it is.
func (l *Later) concluded() error {
	if l.after == nil {
		return l.err
	}
	return l.after(l.err)
}

// end makes it worth nothing, unless it was given; false: it was.
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

// handedTo says who takes an answer that was not given yet; false: it was.
func (l *Later) handedTo(take func(error) error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take = take
	return !l.given
}

// AnswerLater makes the answer of a handler that returns nil the one that l gets. The handler calls it before
// it returns; the record, as it was given to it, stays valid until then.
func (r *Record) AnswerLater(l *Later) { r.late = l }

// Within says that no answer counts once ctx has ended: the caller, who is no engine, passes that to a handler. A
// record of an engine has that from there.
func (r *Record) Within(ctx context.Context) {
	if r.data == nil || r.data.from == nil {
		d := &memory{lost: func() bool { return ctx.Err() != nil }}
		d.atWork = func(Attempt) bool { return !d.over.Load() }
		r.data = d
	}
}

// Late says whether a handler that has just returned nil answers later.
func (r *Record) Late() bool { return r.late != nil }

// Then has f look at the answer that comes later, and change it: it is called once, by whoever gives it, by the
// worker where that was before the handler returned, or, with fault.Fenced, by the engine that waits no longer. f
// of an outer handler comes after those of inner ones.
func (r *Record) Then(f func(error) error) {
	l := r.late
	if inner := l.after; inner != nil {
		l.after = func(err error) error { return f(inner(err)) }
		return
	}
	l.after = f
}

// Wait is the outcome of a handler that has returned err: if it answers later, then that, which is waited
// for. When ctx ends it is waited for a while longer, and then the error is that of ctx.
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
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-answer:
		return err
	case <-late.C:
	}
	if l.end(errLost) {
		return context.Cause(ctx)
	}
	return <-answer
}

// returned notes that a handler has returned err, for the attempt whose answer l is; errOut: that comes later.
func (e *Engine) returned(n *node, l *Later, err error) error {
	if err != nil {
		l.end(errSaid)
		return err
	}
	l.node = n // nobody else looks at it before the next line
	if l.handedTo(func(err error) error { return e.cameBack(l, err) }) {
		n.rec.late = l
		return errOut
	}
	return l.concluded()
}

// sendOut notes that a record has left its worker without an answer. If that came meanwhile, it is returned.
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

// frozen says whether no answer counts any more; the caller holds mu.
func (e *Engine) frozen() bool { return e.phase == stopped || e.lost() }

// tooLate is frozen for who answers.
func (e *Engine) tooLate() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.frozen()
}

// isAt says whether a handler is at an attempt.
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

// disown ends the attempts that are left without an answer: those whose business it is hear that there is none, and
// what holds places for them has these again. An answer that still comes counts for nothing.
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

// watchOut gives the unit up when an answer does not come within ProgressTimeout.
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
