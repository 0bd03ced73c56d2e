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
