package kafkalog

import (
	"context"
	"sync"
	"time"
)

// budget bounds the bytes of the appends that wait for their answers.
type budget struct {
	mu   sync.Mutex
	max  int
	used int
	wake chan struct{} // closed when used shrinks; nil: nobody waits
}

func newBudget(limit int) *budget { return &budget{max: limit} }

// take reserves n bytes, or as much as there is; it waits while there is too little.
func (b *budget) take(ctx context.Context, n int, closed <-chan struct{}) error {
	for {
		b.mu.Lock()
		if b.used+n <= b.max || b.used == 0 {
			b.used += n
			b.mu.Unlock()
			return nil
		}
		wake := b.waker()
		b.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-closed:
			return errClosed
		}
	}
}

func (b *budget) waker() chan struct{} {
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return b.wake
}

func (b *budget) give(n int) {
	b.mu.Lock()
	b.used -= n
	wake := b.wake
	b.wake = nil
	b.mu.Unlock()
	if wake != nil {
		close(wake)
	}
}

// drain waits until nothing is in use, at most for d.
func (b *budget) drain(d time.Duration) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		if b.used == 0 {
			b.mu.Unlock()
			return
		}
		wake := b.waker()
		b.mu.Unlock()
		select {
		case <-wake:
		case <-timeout.C:
			return
		}
	}
}
