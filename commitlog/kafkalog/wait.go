package kafkalog

import (
	"context"
	"time"
)

// waiter is one call of Wait.
type waiter struct {
	offset int64
	woken  chan struct{} // has room for one
}

// Wait takes part in the long poll of the partition's leader.
func (h *handle) Wait(ctx context.Context, partition int, offset int64) error {
	p := h.s.parts[partition]
	r := &p.read
	w := &waiter{offset: offset, woken: make(chan struct{}, 1)}
	r.mu.Lock()
	if r.waiters == nil {
		r.waiters = map[*waiter]struct{}{}
	}
	r.waiters[w] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiters, w)
		r.mu.Unlock()
	}()
	for {
		if err := h.usable(ctx); err != nil {
			return err
		}
		r.mu.Lock()
		there := r.end > offset
		r.poll.last = time.Now()
		r.mu.Unlock()
		if there || h.s.sealed.Load() {
			return nil
		}
		h.s.l.watch(p)
		select {
		case <-w.woken:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.closed:
		case <-h.s.l.ctx.Done():
		}
	}
}

// wake makes the waits for less than end look again; -1: all waits.
func (r *reads) wake(end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.waiters {
		if end < 0 || w.offset < end {
			select {
			case w.woken <- struct{}{}:
			default:
			}
		}
	}
}

// lowest is the lowest offset that is waited for, if any is. mu is held.
func (r *reads) lowest() (int64, bool) {
	low, waited := int64(0), false
	for w := range r.waiters {
		if !waited || w.offset < low {
			low, waited = w.offset, true
		}
	}
	return low, waited
}
