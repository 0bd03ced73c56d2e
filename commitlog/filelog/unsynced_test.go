package filelog_test

import (
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A repeated append is acknowledged when its original is durable, also in another process, and though
// nothing is written for it.
func TestADuplicateWaitsForTheSyncOfItsOriginal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		mem := vfs.NewMem(seed)
		stop := newGateway(vfs.OpSync, ".seg")
		began := stop.match
		var armed atomic.Bool
		stop.match = func(op *vfs.Op) bool { return armed.Load() && began(op) }
		first := openTopic(t, open(t, filelog.Config{FS: vfs.Inject(mem.Process(), stop.hook)}), "t", 1)
		second := openTopic(t, open(t, filelog.Config{FS: mem.Process()}), "t", 1)
		armed.Store(true)
		recs, opts := []commitlog.Record{{Value: []byte("once")}}, &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 7}}
		answer := make(chan error, 1)
		first.AppendAsync(t.Context(), 0, recs, opts, func(_ int64, err error) { answer <- err })
		<-stop.reached
		at, err := second.Append(t.Context(), 0, recs, opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			after := openTopic(t, open(t, filelog.Config{FS: mem.Crash()}), "t", 1)
			if got := values(t, after, 0); got[at] != "once" {
				t.Errorf("seed %d: a repeated append was acknowledged at %d; after a power loss there is %q", seed, at, got[at])
			}
		}
		close(stop.release)
		if err := <-answer; err != nil {
			t.Error(err)
		}
	}
}
