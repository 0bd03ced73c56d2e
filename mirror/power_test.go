package mirror_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// lazily opens a log at level os on a disk that can lose its power.
func lazily(t *testing.T, disk vfs.FS) *commitlog.Log {
	t.Helper()
	log, err := filelog.Open(t.Context(), filelog.Config{FS: disk, SegmentBytes: filelog.MinSegmentBytes, Options: driver.Options{Durability: driver.OS}})
	must(t, err)
	t.Cleanup(func() { _ = log.Close() }) // a test may have closed it
	return log
}

// between is a world of these two logs, with registries that lose nothing.
func between(t *testing.T, from, to *commitlog.Log) *world {
	t.Helper()
	w := &world{TB: t, from: mirror.Side{Log: from, Registry: memregistry.New()}, to: mirror.Side{Log: to, Registry: memregistry.New()}}
	c := topic.NewCatalog(from, w.from.Registry, "")
	w.must(c.Create(t.Context(), name, topic.Config{Partitions: 1}))
	var err error
	w.source, err = c.Open(t.Context(), name)
	w.must(err)
	t.Cleanup(func() { w.must(errors.Join(w.source.Close(), w.from.Registry.Close(), w.to.Registry.Close())) })
	return w
}

// How far the source is copied is stored elsewhere: what it loses and gives the offsets of to others would never be
// copied.
func TestWhatCountsAsCopiedLastsAtTheSource(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		disk := vfs.NewMem(seed)
		w := between(t, lazily(t, disk.Process()), memlog.NewStore(nil).Open())
		w.produce(0, 200)
		w.must(w.mirror(true).Run(t.Context()))
		w.from.Log = lazily(t, disk.Crash())
		if left, copied := w.contents(w.from, 0)[0], w.contents(w.to, 0)[0]; len(left) < len(copied) {
			t.Fatalf("seed %d: %d records are copied, and the source has %d of them after a loss of power", seed, len(copied), len(left))
		}
	}
}

// The progress of groups at the target is stored elsewhere, too.
func TestACutOverLastsAtTheTarget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		disk := vfs.NewMem(seed)
		w := between(t, memlog.NewStore(nil).Open(), lazily(t, disk.Process()))
		w.produce(0, 20)
		w.must(w.mirror(true).Run(t.Context()))
		open, err := w.to.Log.Topic(t.Context(), w.storageName(w.to, 0)) // or closing it would do
		w.must(err)
		w.produce(20, 200)
		_, err = w.mirror(false).CutOver(t.Context())
		w.must(err)
		w.to.Log = lazily(t, disk.Crash())
		w.wantSame(0)
		w.must(open.Close())
	}
}
