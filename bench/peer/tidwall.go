package peer

import (
	"context"

	"github.com/tidwall/wal"
)

// tidwallStore is tidwall/wal. It syncs once for each batch and takes one writer at a time, so a
// committer gathers what waits into a batch.
type tidwallStore struct {
	log *wal.Log
	*committer
	last  uint64 // owned by the committer
	batch wal.Batch
}

func openTidwall(_ context.Context, o Options) (Store, error) {
	log, err := wal.Open(o.Dir, &wal.Options{NoSync: o.Durability != Sync, SegmentSize: 20 << 20, SegmentCacheSize: 2})
	if err != nil {
		return nil, err
	}
	s := &tidwallStore{log: log}
	s.committer = newCommitter(s.commit)
	return s, nil
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

func (s *tidwallStore) Appender() (Append, error) { return s.appender(), nil }

// Scan reads index after index.
func (s *tidwallStore) Scan(_ context.Context, n int64) (records, bytes int64, err error) {
	for i := uint64(1); i <= uint64(n); i++ {
		v, err := s.log.Read(i)
		if err != nil {
			return records, bytes, err
		}
		records++
		bytes += int64(len(v))
	}
	return records, bytes, nil
}

func (s *tidwallStore) Close() error {
	s.close()
	return s.log.Close()
}
