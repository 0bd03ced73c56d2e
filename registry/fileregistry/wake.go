package fileregistry

import (
	"context"
	"time"
)

// waker tells the processes on one store that it changed.
type waker interface {
	// Ring wakes all others; it may wake this one as well.
	Ring()
	// Wait returns after a ring, or with an error when the waker is closed.
	Wait() error
	Close() error
}

// pollWaker is for file systems the kernel does not watch for us, such as the one in memory: it
// looks at the journal's end.
type pollWaker struct {
	ctx    context.Context //nolint:containedctx // its lifetime: cancelled by Close
	cancel context.CancelFunc
	ctl    *control
	last   uint64
}

const pollEvery = 5 * time.Millisecond

func newPollWaker(ctl *control) *pollWaker {
	ctx, cancel := context.WithCancel(context.Background())
	return &pollWaker{ctx: ctx, cancel: cancel, ctl: ctl, last: ctl.written.Load()}
}

func (w *pollWaker) Ring() {}

func (w *pollWaker) Wait() error {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if now := w.ctl.written.Load(); now != w.last {
				w.last = now
				return nil
			}
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

func (w *pollWaker) Close() error {
	w.cancel()
	return nil
}
