package peer

import (
	"context"
	"errors"
	"sync"

	"github.com/ringfence/ringfence/internal/measure"
)

// committer gathers the appends of many goroutines and commits them together, for stores that
// don't do so themselves. It starts one goroutine, which ends with close.
type committer struct {
	queue chan commitRequest
	done  sync.WaitGroup
}

type commitRequest struct {
	values [][]byte
	result func(error)
}

// maxCommit bounds the values of one commit.
const maxCommit = 8192

// newCommitter calls commit, from one goroutine, with all values that wait.
func newCommitter(commit func(values [][]byte) error) *committer {
	c := &committer{queue: make(chan commitRequest, maxCommit)}
	c.done.Go(func() {
		var values [][]byte
		var waiting []func(error)
		for r := range c.queue {
			values, waiting = append(values[:0], r.values...), append(waiting[:0], r.result)
			for more := true; more && len(values) < maxCommit; {
				select {
				case r, ok := <-c.queue:
					if more = ok; ok {
						values, waiting = append(values, r.values...), append(waiting, r.result)
					}
				default:
					more = false
				}
			}
			err := commit(values)
			for _, w := range waiting {
				w(err)
			}
		}
	})
	return c
}

// appender is the blocking way to append.
func (c *committer) appender() Append {
	result := make(chan error, 1)
	told := func(err error) { result <- err }
	return func(_ context.Context, values [][]byte) error {
		c.queue <- commitRequest{values, told}
		return <-result
	}
}

// stream is the pipelined way to append.
func (c *committer) stream(value []byte, window int, stop func() bool) (acked int64, err error) {
	w := measure.NewWindow(window)
	values := [][]byte{value}
	return w.Fill(func(int) bool { return !stop() }, func(int) { c.queue <- commitRequest{values, w.Leave} })
}

func (c *committer) close() {
	close(c.queue)
	c.done.Wait()
}

// inOrder sends one append after another, and waits for their acks in that order with window of them
// under way.
func inOrder[T any](window int, stop func() bool, send func() (T, error), wait func(T) error) (acked int64, err error) {
	pending := make(chan T, window)
	var waited error
	var waiting sync.WaitGroup
	waiting.Go(func() { // joined below
		for p := range pending {
			if err := wait(p); err == nil {
				acked++
			} else if waited == nil {
				waited = err
			}
		}
	})
	for err == nil && !stop() {
		var p T
		if p, err = send(); err == nil {
			pending <- p
		}
	}
	close(pending)
	waiting.Wait()
	return acked, errors.Join(err, waited)
}
