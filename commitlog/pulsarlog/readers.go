package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// A reader of Pulsar's is pushed to, and expensive to make; Read is a call with an offset. So readers of a
// partition are kept as cursors, each at the offset where its last caller left off, and a caller that goes on
// reading finds the cursor there; a call at another offset makes one. A cursor at the right place answers
// without a question to the broker. When it has nothing, the broker is asked how far the partition goes:
// either this is the end, or something is on its way, and a cursor that nothing comes from in time is given
// up, as the client loses connections without a word.
//
// Waiting has the same shape, and a seal is what it may miss: the client does not report one. So a marker,
// which comes before a seal, makes waiting readers ask more often for a while.

const (
	// keepCursors is how many readers of a partition are kept for callers that may read on.
	keepCursors = 8
	// recheck is how often a waiting reader asks whether the partition was terminated or deleted by
	// something else than Ringfence, which is not reported.
	recheck = 20 * time.Second
	// sealCheck is how often it asks after the marker of a seal, and how often at most.
	sealCheck  = 50 * time.Millisecond
	sealChecks = 40
)

// readers are the cursors of a partition.
type readers struct {
	p *partition

	mu      sync.Mutex
	cursors []*cursor
	clock   int64
	over    bool
	wakes   chan struct{} // closed by wakeAll
}

// find returns a cursor that stands at an offset, nil when there is none. The caller gives it back.
func (r *readers) find(offset int64) *cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cursors {
		c.mu.Lock()
		here := c.at == offset && c.err == nil
		c.mu.Unlock()
		if here {
			c.users++
			return c
		}
	}
	return nil
}

// open makes a cursor at an offset and makes room for it.
func (r *readers) open(ctx context.Context, offset int64) (*cursor, error) {
	c, err := r.p.openCursor(ctx, offset)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		c.close()
		return nil, r.p.topic.why
	}
	c.users = 1
	r.cursors = append(r.cursors, c)
	if r.p.isFinal(c.arrived()) { // it was sealed meanwhile
		c.cancel()
	}
	r.mu.Unlock()
	return c, nil
}

// release gives a cursor back and closes those that are broken or too many.
func (r *readers) release(c *cursor) {
	r.mu.Lock()
	c.users--
	r.clock++
	c.used = r.clock
	var closing []*cursor
	for i := 0; i < len(r.cursors); {
		x := r.cursors[i]
		x.mu.Lock()
		broken := x.err != nil
		x.mu.Unlock()
		if x.users == 0 && (broken || len(r.cursors) > keepCursors && r.oldest() == x) {
			closing = append(closing, x)
			r.cursors = append(r.cursors[:i], r.cursors[i+1:]...)
			continue
		}
		i++
	}
	r.mu.Unlock()
	for _, x := range closing {
		x.close()
	}
}

func (r *readers) oldest() *cursor {
	var oldest *cursor
	for _, c := range r.cursors {
		if c.users == 0 && (oldest == nil || c.used < oldest.used) {
			oldest = c
		}
	}
	return oldest
}

// forget makes cursors below a trimmed offset unusable: a read from there has to fail.
func (r *readers) forget(before int64) {
	r.mu.Lock()
	list := append([]*cursor(nil), r.cursors...)
	r.mu.Unlock()
	for _, c := range list {
		c.mu.Lock()
		below := c.at < before
		c.mu.Unlock()
		if below {
			c.fail(fmt.Errorf("the offset was trimmed: %w", fault.OutOfRange))
		}
	}
}

// retire ends the readers that stand at the end of a sealed partition: the broker has a word to
// say to each, at which the client closes the connection that others use too, again and again.
func (r *readers) retire(end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cursors {
		if c.arrived() >= end {
			c.cancel()
		}
	}
}

// wakeAll lets waiting readers look at the bounds again.
func (r *readers) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wakes != nil {
		close(r.wakes)
		r.wakes = nil
	}
}

func (r *readers) woken() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wakes == nil {
		r.wakes = make(chan struct{})
	}
	return r.wakes
}

// stop closes all cursors. Calls that use one end with the error that it gets.
func (r *readers) stop() {
	r.mu.Lock()
	r.over = true
	list := r.cursors
	r.cursors = nil
	r.mu.Unlock()
	var closes sync.WaitGroup
	for _, c := range list {
		c.fail(r.p.topic.why)
		closes.Go(c.close) // joined below
	}
	closes.Wait()
}

func (p *partition) outOfRange(b driver.Bounds, offset int64) error {
	if offset >= b.First && offset <= b.Next {
		return nil
	}
	return &driver.OutOfRangeError{Topic: p.topic.config.Name, Partition: p.number, Offset: offset, First: b.First, End: b.Next}
}

// at returns a cursor at an offset, which is checked when the cursor is new.
func (p *partition) at(ctx context.Context, offset int64) (*cursor, error) {
	if c := p.readers.find(offset); c != nil {
		return c, nil
	}
	b, err := p.bounds(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.outOfRange(b, offset); err != nil {
		return nil, err
	}
	return p.readers.open(ctx, offset)
}

// read implements driver.Topic. What has arrived is returned without a question to the broker.
func (p *partition) read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	for patience := firstArrival; ; {
		c, err := p.at(ctx, req.Offset)
		if err != nil {
			return dst, req.Offset, err
		}
		recs, next, here := c.take(req.Offset, req.MaxBytes, dst)
		if here && next == req.Offset {
			recs, next, here, err = p.catchUp(ctx, c, patience, req, dst)
		}
		p.readers.release(c)
		if errors.Is(err, errStalled) && patience < lastArrival {
			patience *= 2
			continue // the client gives up some connections without a word; the next reader makes one
		}
		if err != nil {
			return dst, req.Offset, err
		}
		if here { // or another caller has read on with it
			return recs, next, nil
		}
	}
}

var errStalled = errors.New("the broker does not send what it has")

// catchUp reads with a cursor that has nothing to hand out: it asks how far the partition goes
// and waits for what is on its way. A cursor that nothing comes from is given up with errStalled.
func (p *partition) catchUp(ctx context.Context, c *cursor, patience time.Duration, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, bool, error) {
	b, err := p.bounds(ctx)
	if err == nil {
		err = p.outOfRange(b, req.Offset)
	}
	if err != nil || req.Offset >= b.Next {
		return dst, req.Offset, true, err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.await(limited, b.Next); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = p.fail("read", fmt.Errorf("%w: offsets up to %d, nothing within %s: %w", errStalled, b.Next, patience, fault.Unavailable))
			c.fail(err)
		}
		return dst, req.Offset, true, err
	}
	recs, next, here := c.take(req.Offset, req.MaxBytes, dst)
	if here && next == req.Offset { // markers only
		c.skip(req.Offset, b.Next)
		next = b.Next
	}
	return recs, next, here, nil
}

// wait implements driver.Topic.
func (p *partition) wait(ctx context.Context, offset int64) error {
	checks, seen := 0, offset
	for {
		if c := p.readers.find(offset); c != nil {
			ready := c.ready(offset)
			p.readers.release(c)
			if ready {
				return nil
			}
		}
		woken := p.readers.woken()
		b, err := p.bounds(ctx)
		if err != nil || b.Sealed || offset < b.Next {
			return err
		}
		c, err := p.at(ctx, offset)
		var out *driver.OutOfRangeError
		if errors.As(err, &out) && offset >= out.First { // above the end
			c, err = p.readers.open(ctx, offset)
		}
		if err != nil {
			return err
		}
		patience := recheck
		if checks > 0 {
			patience = sealCheck
			checks--
		}
		now, err := c.doze(ctx, seen, patience, woken)
		if now > seen { // perhaps the marker of a seal that follows
			checks, seen = sealChecks, now
		}
		p.readers.release(c)
		if err != nil && (ctx.Err() != nil || !errors.Is(err, fault.Unavailable)) {
			return err
		}
	}
}

// ready says whether there is a record to hand out at an offset.
func (c *cursor) ready(offset int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at == offset && len(c.recs) > 0
}

// doze sleeps until more has arrived than the caller has seen, patience ends, or it is
// woken, and returns how far it has arrived.
func (c *cursor) doze(ctx context.Context, seen int64, patience time.Duration, woken <-chan struct{}) (int64, error) {
	c.mu.Lock()
	now, changed, err := c.seen, c.changed, c.err
	c.mu.Unlock()
	if err != nil || now > seen {
		return now, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
		return now, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen, c.err
}
