package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// Batches calls a handler for several records of one unit at once. An added record waits for its call without a
// worker, like one that is out; so it counts as a handler, and the engine bounds how many wait.
//
// The engine has at most one record of a key out. So those of a batch are of different keys, and the outcome of
// one says nothing of the others.
type Batches[T any] struct {
	Call   func(ctx context.Context, items []T) []error // by item; nil: all are done
	Size   int                                          // items in a call at most
	AtOnce int                                          // calls
	// Wait is how long an item waits for others. With 0 it waits only while all permitted calls are under
	// way: items that came meanwhile go together.
	Wait   time.Duration
	Hurry  <-chan struct{} // closed when no item may wait any more
	Calls  *Calls
	Logger *slog.Logger

	mu        sync.Mutex
	waiting   []item[T]
	full      chan struct{} // signals that there are enough to gather; capacity 1
	gathering bool
	calls     int // that one included
}

type item[T any] struct {
	ctx   context.Context //nolint:containedctx // of the attempt: it waits here, as it would in a handler
	value T
	since time.Time
	later *dispatch.Later
}

// Add puts a record into one of the next calls, which will answer it.
func (b *Batches[T]) Add(ctx context.Context, r *dispatch.Record, value T) {
	l := dispatch.NewLater(r)
	r.AnswerLater(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, item[T]{ctx, value, time.Now(), l})
	if b.gathering && len(b.waiting) >= b.Size {
		select {
		case b.full <- struct{}{}:
		default:
		}
	}
	b.begin()
}

// begin gathers a batch, unless one is being gathered, or all permitted calls are under way; the caller holds
// mu.
func (b *Batches[T]) begin() {
	if b.gathering || b.calls >= b.AtOnce || len(b.waiting) == 0 {
		return
	}
	if b.full == nil {
		b.full = make(chan struct{}, 1)
	}
	b.gathering = true
	b.calls++
	go b.run(b.waiting[0], len(b.waiting) >= b.Size) // joined by Calls.Join, since it owes answers until then
}

// run gathers a batch, calls the handler and passes its answers on.
func (b *Batches[T]) run(first item[T], full bool) {
	if b.Wait > 0 && !full {
		b.gather(first)
	}
	batch, cancelled := b.take()
	errs := exited
	defer func() { // also where the handler has ended its goroutine
		b.Calls.ending.RLock()
		defer b.Calls.ending.RUnlock()
		for _, i := range cancelled {
			i.answer(context.Cause(i.ctx)) // it was in no call
		}
		for k, i := range batch {
			i.answer(errs(k))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls--
		b.begin()
	}()
	if len(batch) > 0 {
		errs = b.call(batch)
	}
}

func exited(int) error { return errors.New("the handler ended its goroutine (runtime.Goexit)") }

// answer passes an answer on. A handler can do nothing about one that counts for nothing.
func (i *item[T]) answer(err error) { _ = i.later.Answer(err) }

// take takes the items of a call, and apart from them those whose attempt was cancelled while they waited.
func (b *Batches[T]) take() (batch, cancelled []item[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(b.Size, len(b.waiting))
	for _, i := range b.waiting[:n] {
		if i.ctx.Err() == nil {
			batch = append(batch, i)
		} else {
			cancelled = append(cancelled, i)
		}
	}
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.gathering = false
	select {
	case <-b.full:
	default:
	}
	b.begin()
	return batch, cancelled
}

// gather waits until there is a batch.
func (b *Batches[T]) gather(first item[T]) {
	timer := time.NewTimer(time.Until(first.since.Add(b.Wait)))
	defer timer.Stop()
	select {
	case <-b.full:
	case <-timer.C:
	case <-b.Hurry:
	case <-dispatch.Last(first.ctx):
	case <-first.ctx.Done():
	}
}

// call calls the handler for a batch, and returns the error of each item.
func (b *Batches[T]) call(batch []item[T]) (errs func(int) error) {
	ctx, cancel := together(batch)
	defer cancel()
	values := make([]T, len(batch))
	for i := range batch {
		values[i] = batch[i].value
	}
	defer func() {
		if v := recover(); v != nil {
			err := fmt.Errorf("the handler panicked: %v", v)
			errs = func(int) error { return err }
			b.Logger.Error("a handler panicked", "records", len(batch), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	answers := b.Call(ctx, values)
	switch len(answers) {
	case 0:
		return func(int) error { return nil }
	case len(batch):
		return func(i int) error { return answers[i] }
	}
	err := fmt.Errorf("the handler returned %d errors for a batch of %d; expected one for each, nil for what is done, or none at all", len(answers), len(batch))
	b.Logger.Error("a batch counts as failed", "error", err)
	return func(int) error { return err }
}

// together ends when the context of one of the items does: they are of one unit, and differ only in where
// their answers go.
func together[T any](batch []item[T]) (context.Context, context.CancelFunc) {
	var others []context.Context
	for _, i := range batch[1:] {
		if i.ctx != batch[0].ctx && !slices.Contains(others, i.ctx) {
			others = append(others, i.ctx)
		}
	}
	ctx, cancel := context.WithCancelCause(batch[0].ctx)
	stops := make([]func() bool, len(others))
	for i, other := range others {
		stops[i] = context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Calls joins the calls of batches. A call that still owes its answers when the engines have ended is stuck,
// as they have said; Join waits for the end of all others.
type Calls struct{ ending sync.RWMutex } // held to read by calls that have their answers

// Join returns when no call is about to end. It is called once, when no unit runs any more.
func (c *Calls) Join() {
	c.ending.Lock()
	c.ending.Unlock() //nolint:gocritic,staticcheck // it waits for those that hold it
}
