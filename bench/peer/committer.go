package peer

import (
	"context"
	"sync"
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

func (c *committer) close() {
	close(c.queue)
	c.done.Wait()
}
