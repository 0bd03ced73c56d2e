package peer

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ringfence/ringfence/internal/script"
)

// pebbleStore is Pebble as a log: the key is a counter, and Pebble itself gathers commits into one sync.
type pebbleStore struct {
	db   *pebble.DB
	next atomic.Uint64
}

func openPebble(_ context.Context, life *script.Script, o Options) Store {
	db := must(pebble.Open(o.Dir, &pebble.Options{
		MemTableSize:                64 << 20,
		MemTableStopWritesThreshold: 4,
		Logger:                      quiet{},
	}))
	life.Later(db.Close)
	return &pebbleStore{db: db}
}

func (s *pebbleStore) Appender() Append {
	return func(_ context.Context, values [][]byte) {
		first := s.next.Add(uint64(len(values))) - uint64(len(values))
		b := s.db.NewBatch()
		var key [8]byte
		for i, v := range values {
			binary.BigEndian.PutUint64(key[:], first+uint64(i))
			check(b.Set(key[:], v, nil))
		}
		check(b.Commit(pebble.Sync))
		check(b.Close())
	}
}

// quiet discards what Pebble logs, and lets fatal errors be heard.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	pebble.DefaultLogger.Fatalf(format, args...)
}
