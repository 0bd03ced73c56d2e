package filelog_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// twoLevels is a topic as two processes have it open, the one at level sync with a disk that can break. A record
// is durable in it.
func twoLevels(t *testing.T) (strict, lazy *commitlog.Topic, disk *failing) {
	t.Helper()
	mem := vfs.NewMem(1)
	disk = failingOn(mem.Process(), vfs.OpSync, syscall.EIO)
	strict = openTopic(t, open(t, smallSegments(disk, driver.Sync)), "t", 1)
	lazy = openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
	send(t, strict, "durable", 10)
	return strict, lazy, disk
}

// notDurable breaks the disk, and appends a record whose sync fails.
func notDurable(t *testing.T, strict *commitlog.Topic, disk *failing) {
	t.Helper()
	disk.broken.Store(true)
	if _, err := strict.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("not durable")}}, nil); !errors.Is(err, commitlog.ErrUnknown) {
		t.Fatalf("an append whose sync fails: %v", err)
	}
}

// Readers at level os have seen a record whose sync fails. It is cut off, and another one gets its offset:
// who has counted it is told.
func TestRecordsThatMayHaveBeenTakenBackAreDoubted(t *testing.T) {
	t.Parallel()
	strict, lazy, disk := twoLevels(t)
	if strict.Unsettled() || !lazy.Unsettled() {
		t.Errorf("readers may see what is not durable: %t at level sync, %t at level os", strict.Unsettled(), lazy.Unsettled())
	}
	before := lazy.Doubt()
	notDurable(t, strict, disk)
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

// Who only consumes at level os gets on behind an error, though nobody appends any more: what was not
// acknowledged is cut off, the rest is settled.
func TestWhoOnlyReadsGetsOnBehindAnError(t *testing.T) {
	t.Parallel()
	strict, lazy, disk := twoLevels(t)
	notDurable(t, strict, disk)
	wantBounds(t, lazy, 0, 2)
	seen := lazy.Doubt() // of who begins to read here
	if err := lazy.Settle(t.Context()); !errors.Is(err, commitlog.ErrUnknown) {
		t.Errorf("settled with %v what a failed sync was for", err)
	}
	disk.broken.Store(false)
	if err := settled(t, lazy); err != nil {
		t.Errorf("what was durable is not settled: %v", err)
	}
	wantBounds(t, lazy, 0, 1)
	if lazy.Doubt() == seen {
		t.Error("who has read a record after the error is not told that it was taken back")
	}
}

// What was acknowledged without a sync is not cut off by an error of one: who waits for it has it settled
// once the disk works, and need not wait for somebody to append.
func TestWhatWasAcknowledgedIsSettledBehindAnError(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	disk := failingOn(mem.Process(), vfs.OpSync, syscall.EIO)
	lazy := openTopic(t, open(t, smallSegments(disk, driver.OS)), "t", 1)
	disk.broken.Store(true) // before a sync in the background
	at := send(t, lazy, "kept", 10)
	if err := lazy.Settle(t.Context()); !errors.Is(err, commitlog.ErrUnknown) {
		t.Fatalf("settled with %v what could not be synced", err)
	}
	disk.broken.Store(false)
	if err := settled(t, lazy); err != nil {
		t.Fatalf("what was acknowledged is not settled: %v", err)
	}
	wantBounds(t, lazy, 0, 1)
	if got := values(t, openTopic(t, open(t, smallSegments(mem.Crash(), driver.OS)), "t", 1), 0); got[at] != "kept" {
		t.Errorf("after a loss of power there is %v", got)
	}
}

// settled settles a topic whose disk works again, as a consumer does: an error of a sync that was begun before is
// told to each descriptor once.
func settled(t *testing.T, topic *commitlog.Topic) (err error) {
	t.Helper()
	for range 10 {
		if err = topic.Settle(t.Context()); err == nil {
			return nil
		}
	}
	return err
}

// The ends that a seal returns are stored elsewhere, and groups wait until they have read up to there.
func TestASealLastsWithAllBeforeItAtLevelOS(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		mem := vfs.NewMem(seed)
		lazy := openTopic(t, open(t, smallSegments(mem.Process(), driver.OS)), "t", 1)
		for range 200 {
			send(t, lazy, "before the seal", 20)
		}
		ends, err := lazy.Seal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after := openTopic(t, open(t, smallSegments(mem.Crash(), driver.OS)), "t", 1)
		if b, err := after.Bounds(t.Context(), 0); err != nil || !b.Sealed || b.Next != ends[0] {
			t.Fatalf("seed %d: sealed at %d; after a loss of power the end is %d, sealed %t, %v", seed, ends[0], b.Next, b.Sealed, err)
		}
	}
}
