package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// Each partition has a queue of what is to be produced, and one owner of it at a time, which set busy: the
// caller of Append that found no owner, then a sender (sender.go), then what handles the answer, then what
// finds out what became of an append (reconcile.go). So order within a partition needs no lock, and each
// append is answered once, by its owner. The waiting appends are under mu: any caller may add to them.

// pending is an append that waits for its answer.
type pending struct {
	req    *driver.AppendRequest // the caller's, until done was called
	done   func(first int64, err error)
	also   []*pending // the same append again, which shares its fate
	size   int        // an upper bound of its bytes in a batch, reserved in the log's budget
	since  time.Time
	looked int // how deep the broker's view of its producer was read for it
	maybe  bool
}

// queue is the producing side of a partition. The owner, which set busy, has all but what mu guards; ownership
// moves from the caller of Append to a sender and back.
type queue struct {
	mu      sync.Mutex
	waiting []*pending
	busy    bool

	retry   *batch // to be sent again as it is, before anything else
	refused bool   // the broker refused an append for the seal: it will refuse all
	target  int    // of a batch's size, where the broker takes less than usual
	own     *identity
	others  map[uint64]*identity
	past    map[int64]*trace // by Kafka's producer id: what a sealed partition has; nil: not read
	trimmed bool             // and records are missing at its beginning
}

// batchTarget is the size up to which appends share a batch.
const batchTarget = 1 << 20

// Append queues one batch.
func (h *handle) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	s := h.s
	if err := h.usable(ctx); err != nil {
		done(0, s.notDone(ctx, req.Partition, err))
		return
	}
	if s.weak != nil {
		done(0, s.weak)
		return
	}
	size := 0
	for i := range req.Records {
		r := &req.Records[i]
		size += commitlog.RecordBytes(r) + recordSpace(r)
	}
	if err := s.l.budget.take(ctx, size); err != nil {
		done(0, s.notDone(ctx, req.Partition, err))
		return
	}
	if err := h.usable(ctx); err != nil { // Close drains the budget: what comes later must not begin
		s.l.budget.give(size)
		done(0, s.notDone(ctx, req.Partition, err))
		return
	}
	p := s.parts[req.Partition]
	if p.produce.push(&pending{req: req, done: done, size: size, since: time.Now()}) {
		s.l.ready(p)
	}
}

// push queues an append; true: the partition had no owner, and the caller owns it now.
func (q *queue) push(w *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
	mine := !q.busy
	q.busy = true
	return mine
}

// notDone is the error of an append that never left.
func (s *store) notDone(ctx context.Context, partition int, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("append to topic %q partition %d: %w: %w", s.config.Name, partition, fault.NotDone, err)
	}
	return err
}

// peek is the first append; nil: there is none.
func (q *queue) peek() *pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	return q.waiting[0]
}

func (q *queue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
}

// unpop puts the appends of a batch back in front, one by one.
func (q *queue) unpop(items []*pending) {
	var list []*pending
	for _, w := range items {
		list = append(append(list, w), w.also...)
		w.also = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(list, q.waiting...)
}

// answer tells the outcome of an append, and of those that share it.
func (p *partition) answer(w *pending, first int64, err error) {
	if err != nil {
		err = fmt.Errorf("append to topic %q partition %d: %w", p.s.config.Name, p.index, err)
	}
	for _, other := range w.also {
		p.answer(other, first, err)
	}
	p.s.l.budget.give(w.size)
	w.done(first, err)
}

// rest gives the partition back when its owner is through with it: to a sender if there is more.
func (p *partition) rest() {
	q := &p.produce
	q.mu.Lock()
	more := q.retry != nil || len(q.waiting) > 0
	q.busy = more
	q.mu.Unlock()
	if more {
		p.s.l.ready(p)
	}
}

// failAll answers everything with an error; the caller owns the partition.
func (p *partition) failAll(err error) {
	q := &p.produce
	if b := q.retry; b != nil {
		q.retry = nil
		p.fail(b, err)
	}
	for w := q.peek(); w != nil; w = q.peek() {
		q.pop()
		p.answer(w, 0, p.fate(w.maybe, err))
	}
	p.rest()
}

// fate is the error of an append that is given up: of unknown outcome when it may be stored, and
// otherwise one that says that it is not.
func (p *partition) fate(maybe bool, err error) error {
	if maybe {
		return fmt.Errorf("%w: %w", fault.Unknown, err)
	}
	for _, absent := range []error{fault.Sealed, fault.Fenced, fault.Forgotten, fault.Invalid, fault.NotFound, fault.Closed, fault.NotDone} {
		if errors.Is(err, absent) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", fault.NotDone, err)
}

// fail answers the appends of a batch with an error and restores what is known of its producer.
func (p *partition) fail(b *batch, err error) {
	b.identity.undo(b)
	for _, w := range b.items {
		p.answer(w, 0, p.fate(b.maybe, err))
	}
}

// budget bounds the bytes of the appends that wait for their answers.
type budget struct {
	bytes *semaphore.Weighted
	max   int64
}

func newBudget(limit int) budget {
	return budget{semaphore.NewWeighted(int64(limit)), int64(limit)}
}

// take reserves n bytes, or all there are for an append of more. It waits while there are too few.
func (b budget) take(ctx context.Context, n int) error {
	return b.bytes.Acquire(ctx, min(int64(n), b.max))
}

func (b budget) give(n int) { b.bytes.Release(min(int64(n), b.max)) }

// drain waits until nothing is in use, at most for d.
func (b budget) drain(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if b.bytes.Acquire(ctx, b.max) == nil {
		b.bytes.Release(b.max)
	}
}
