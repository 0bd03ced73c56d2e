package kafkalog

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

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
