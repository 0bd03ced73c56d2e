package filelog_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestWhatWasSettledSurvivesALossOfPower(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	lazy := openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
	strict := openTopic(t, open(t, smallSegments(mem.Process(), driver.Sync)), "t", 1)
	at := send(t, lazy, "kept", 10)
	if strict.Unsettled() || !lazy.Unsettled() {
		t.Errorf("readers may see what is not durable: %t at level sync, %t at level os", strict.Unsettled(), lazy.Unsettled())
	}
	if err := lazy.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := values(t, openTopic(t, open(t, smallSegments(mem.Crash(), driver.OS)), "t", 1), 0); got[at] != "kept" {
		t.Errorf("after a loss of power there is %v", got)
	}
}

// Readers at level os have seen a record whose sync fails. It is cut off, and another one gets its offset:
// who has counted it is told.
func TestRecordsThatMayHaveBeenTakenBackAreDoubted(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	disk := failingOn(mem.Process(), vfs.OpSync, syscall.EIO)
	strict := openTopic(t, open(t, smallSegments(disk, driver.Sync)), "t", 1)
	lazy := openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
	send(t, strict, "durable", 10)
	before := lazy.Doubt()
	disk.broken.Store(true)
	if _, err := strict.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("not durable")}}, nil); !errors.Is(err, commitlog.ErrUnknown) {
		t.Fatalf("an append whose sync fails: %v", err)
	}
	wantBounds(t, lazy, 0, 2)
	if err := lazy.Settle(t.Context()); !errors.Is(err, commitlog.ErrUnknown) {
		t.Errorf("settled with %v what a failed sync was for", err)
	}
	disk.broken.Store(false)
	if at := send(t, strict, "in its place", 10); at != 1 {
		t.Fatalf("the next record is at %d; expected it in the place of that at 1", at)
	}
	if err := lazy.Settle(t.Context()); err != nil || lazy.Doubt() == before {
		t.Errorf("%v, and the doubt is %d as it was", err, before)
	}
}
