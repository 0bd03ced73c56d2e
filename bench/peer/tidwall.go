package peer

import (
	"context"
	"sync"

	"github.com/tidwall/wal"

	"github.com/ringfence/ringfence/internal/script"
)

// tidwallStore is tidwall/wal, which takes one writer and syncs once a batch: a committer gathers what waits.
type tidwallStore struct {
	log *wal.Log
	*committer
	last  uint64 // owned by the committer
	batch wal.Batch
}

func openTidwall(_ context.Context, life *script.Script, o Options) Store {
	s := &tidwallStore{log: must(wal.Open(o.Dir, &wal.Options{SegmentSize: 20 << 20, SegmentCacheSize: 2}))}
	life.Later(s.log.Close)
	s.committer = newCommitter(s.commit)
	life.Later(s.committer.close)
	return s
}

func (s *tidwallStore) commit(values [][]byte) error {
	s.batch.Clear()
	for i, v := range values {
		s.batch.Write(s.last+1+uint64(i), v)
	}
	if err := s.log.WriteBatch(&s.batch); err != nil {
		return err
	}
	s.last += uint64(len(values))
	return nil
}

// Scan reads index after index.
func (s *tidwallStore) Scan(_ context.Context, n int64) (records, bytes int64) {
	for ; records < n; records++ {
		bytes += int64(len(must(s.log.Read(uint64(records) + 1))))
	}
	return records, bytes
}

// committer gathers the appends of many goroutines into one commit. Its goroutine ends with close.
type committer struct {
	queue chan commitRequest
	done  sync.WaitGroup
}

type commitRequest struct {
	values [][]byte
	result chan<- error
}

// maxCommit bounds the values of one commit.
const maxCommit = 8192

// newCommitter calls commit, from one goroutine, with all values that wait.
func newCommitter(commit func(values [][]byte) error) *committer {
	c := &committer{queue: make(chan commitRequest, maxCommit)}
	c.done.Go(func() {
		var values [][]byte
		var waiting []chan<- error
		for r := range c.queue {
			values, waiting = append(values[:0], r.values...), append(waiting[:0], r.result)
			for len(values) < maxCommit && len(c.queue) > 0 { // only this goroutine takes from it
				r := <-c.queue
				values, waiting = append(values, r.values...), append(waiting, r.result)
			}
			err := commit(values)
			for _, w := range waiting {
				w <- err
			}
		}
	})
	return c
}

// Appender waits for the commit that its values are part of.
func (c *committer) Appender() Append {
	result := make(chan error, 1)
	return func(_ context.Context, values [][]byte) {
		c.queue <- commitRequest{values, result}
		check(<-result)
	}
}

func (c *committer) close() error {
	close(c.queue)
	c.done.Wait()
	return nil
}
