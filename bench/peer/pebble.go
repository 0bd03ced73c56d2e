package peer

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleStore is Pebble as a log: the key is a counter, commits are synced or not, and Pebble
// itself gathers the commits that wait into one sync.
type pebbleStore struct {
	db    *pebble.DB
	next  atomic.Uint64
	write *pebble.WriteOptions
}

func openPebble(_ context.Context, o Options) (Store, error) {
	db, err := pebble.Open(o.Dir, &pebble.Options{
		MemTableSize:                64 << 20,
		MemTableStopWritesThreshold: 4,
		Logger:                      quiet{},
	})
	if err != nil {
		return nil, err
	}
	s := &pebbleStore{db: db, write: pebble.NoSync}
	if o.Durability == Sync {
		s.write = pebble.Sync
	}
	return s, nil
}

func (s *pebbleStore) Appender() (Append, error) {
	return func(_ context.Context, values [][]byte) error {
		first := s.next.Add(uint64(len(values))) - uint64(len(values))
		b := s.db.NewBatch()
		var key [8]byte
		for i, v := range values {
			binary.BigEndian.PutUint64(key[:], first+uint64(i))
			if err := b.Set(key[:], v, nil); err != nil {
				return err
			}
		}
		if err := b.Commit(s.write); err != nil {
			return err
		}
		return b.Close()
	}, nil
}

// Stream commits without waiting for the sync and waits for it window commits later.
func (s *pebbleStore) Stream(_ context.Context, value []byte, window int, stop func() bool) (int64, error) {
	return inOrder(window, stop, func() (*pebble.Batch, error) {
		b := s.db.NewBatch()
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], s.next.Add(1)-1)
		err := b.Set(key[:], value, nil)
		if err == nil && s.write.Sync {
			err = s.db.ApplyNoSyncWait(b, s.write)
		} else if err == nil {
			err = b.Commit(s.write)
		}
		return b, err
	}, func(b *pebble.Batch) error {
		if s.write.Sync {
			if err := b.SyncWait(); err != nil {
				return err
			}
		}
		return b.Close()
	})
}

// Scan walks an iterator.
func (s *pebbleStore) Scan(_ context.Context, n int64) (records, bytes int64, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return 0, 0, err
	}
	for ok := it.First(); ok && records < n; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			it.Close()
			return records, bytes, err
		}
		records++
		bytes += int64(len(v))
	}
	return records, bytes, it.Close()
}

func (s *pebbleStore) Close() error { return s.db.Close() }

// quiet discards what Pebble logs, and lets fatal errors be heard.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	pebble.DefaultLogger.Fatalf(format, args...)
}
