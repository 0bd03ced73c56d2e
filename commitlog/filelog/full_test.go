package filelog_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The disk may be full in the middle of a frame's header: then there is no block for the rest of
// it, not even for zeros. However much was written, nothing was appended. So it is at a quota, and at
// the limit of a process on the size of files: others have none, and nothing of theirs is in doubt.
func TestAnAppendThatDoesNotFitOnTheDiskIsCertainlyNotDone(t *testing.T) {
	t.Parallel()
	for _, why := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		for _, room := range []int{0, 8, 72, 80, 600} {
			doesNotFit(t, why, room)
		}
	}
}

func doesNotFit(t *testing.T, why syscall.Errno, room int) {
	t.Helper()
	var full atomic.Bool
	fsys := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		if full.Load() && op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".seg") && op.Length > room {
			op.Short = room
			return why
		}
		return nil
	})
	topic := openTopic(t, open(t, filelog.Config{FS: fsys}), "t", 1)
	large := []commitlog.Record{{Value: make([]byte, 8000)}}
	full.Store(true)
	for range 2 {
		if _, err := topic.Append(t.Context(), 0, large, nil); !errors.Is(err, commitlog.ErrNotAppended) || !errors.Is(err, why) {
			t.Fatalf("with room for %d bytes: %v; expected ErrNotAppended, %v", room, err, why)
		}
	}
	full.Store(false)
	if at, err := topic.Append(t.Context(), 0, large, nil); err != nil || at != 0 {
		t.Fatalf("with room again: offset %d, %v", at, err)
	}
}

// A record that did not fit is wiped durably: the answer that it was not stored holds after a power loss.
func TestAnAppendThatMetAFullDiskStaysAbsentAfterAPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		var full atomic.Bool
		mem := vfs.NewMem(seed)
		topic := openTopic(t, open(t, filelog.Config{FS: vfs.Inject(mem, func(op *vfs.Op) error {
			if ofFrames(op) && full.Swap(false) {
				op.Short = op.Length - 1 // the record is whole, the zeros behind it are not
				return syscall.ENOSPC
			}
			return nil
		})}), "t", 1)
		send(t, topic, "stored", 6)
		full.Store(true)
		if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("refused")}}, nil); !errors.Is(err, commitlog.ErrNotAppended) {
			t.Fatalf("an append to a full disk: %v; expected ErrNotAppended", err)
		}
		for range 16 {
			after := openTopic(t, open(t, filelog.Config{FS: mem.Crash()}), "t", 1)
			if got := values(t, after, 0); len(got) != 1 {
				t.Fatalf("seed %d: after a power loss there is %v; expected the one record that was stored", seed, got)
			}
		}
	}
}

// A process meets a full disk while the sync of another one takes long. Neither is left in doubt.
func TestAFullDiskBesideASlowSyncLeavesNothingInDoubt(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	slow := newGateway(vfs.OpSync, ".seg")
	began := slow.match
	var armed, full atomic.Bool
	slow.match = func(op *vfs.Op) bool { return armed.Load() && began(op) }
	innocent := openTopic(t, open(t, filelog.Config{FS: vfs.Inject(mem.Process(), slow.hook)}), "t", 1)
	unlucky := openTopic(t, open(t, filelog.Config{FS: vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		if ofFrames(op) && full.Swap(false) {
			op.Short = op.Length / 2
			return syscall.ENOSPC
		}
		return nil
	})}), "t", 1)
	send(t, unlucky, "before", 6)
	armed.Store(true)
	answer := make(chan error, 1)
	innocent.AppendAsync(t.Context(), 0, []commitlog.Record{{Value: []byte("innocent")}}, nil, func(_ int64, err error) { answer <- err })
	<-slow.reached
	full.Store(true)
	if _, err := unlucky.Append(t.Context(), 0, []commitlog.Record{{Value: make([]byte, 8000)}}, nil); !errors.Is(err, commitlog.ErrNotAppended) || errors.Is(err, commitlog.ErrUnknown) {
		t.Errorf("the append that met the full disk: %v; expected ErrNotAppended", err)
	}
	close(slow.release)
	if err := <-answer; err != nil {
		t.Errorf("the append beside it: %v", err)
	}
	send(t, unlucky, "after", 6)
	if got := values(t, innocent, 0); len(got) != 3 {
		t.Errorf("the topic holds %v; expected three records", got)
	}
}

// ofFrames is true for a write of a few frames, and false for one that fills a segment with zeros
// ahead of them, which may come at any time.
func ofFrames(op *vfs.Op) bool {
	return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".seg") && op.Length < 64<<10
}
