package filelog

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// While one goroutine writes a segment again, a sync of another one through the same descriptor fails.
// It took along what was written so far, and the kernel tells nobody twice: the next sync succeeds and
// proves nothing, though whoever was told has not come to mark the segment broken yet.
func TestAFailedSyncMeanwhileMakesWhatWasWrittenAgainDoubtful(t *testing.T) {
	t.Parallel()
	var end, writes atomic.Int64 // of the frames that are written again; so many pieces of them were
	var fails atomic.Bool
	var another func()
	disk := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		switch {
		case !strings.HasSuffix(op.Name, ".seg"):
		case op.Kind == vfs.OpWrite && op.Offset < end.Load() && writes.Add(1) == 3: // not zeros behind them
			another()
		case op.Kind == vfs.OpSync && fails.CompareAndSwap(true, false):
			return syscall.EIO
		}
		return nil
	})
	c := Config{Options: driver.Options{Durability: driver.OS}}
	madeTopic(t, disk, c, commitlog.TopicConfig{Partitions: 1})
	s := storeOf(t, disk, c)
	topic := &topic{s: s, gone: make(chan struct{})}
	for s.page.Written().Off() < 3*maxWrite { // several pieces of one segment
		answer := make(chan error)
		req := driver.AppendRequest{Records: []driver.Record{{Value: make([]byte, maxWrite/4)}}}
		topic.Append(t.Context(), &req, func(_ int64, err error) { answer <- err })
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	}
	n := s.page.Written().Number()
	g, err := s.segs.get(n)
	if err != nil {
		t.Fatal(err)
	}
	defer s.segs.put(g)
	another = func() {
		fails.Store(true)
		if _, err := g.sync(g.hears); !errors.Is(err, syscall.EIO) {
			t.Errorf("the sync of another goroutine: %v", err)
		}
	}
	end.Store(s.page.Written().Off())
	if err := s.rewrite(n, segment.At(n, 0), s.page.Written(), false); !errors.Is(err, syscall.EIO) {
		t.Errorf("segment %d is called durable: %v; a sync that failed took the first pieces along", n, err)
	}
	if writes.Load() < 3 {
		t.Errorf("%d pieces were written; the sync failed before the first one", writes.Load())
	}
}
