package filelog_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// What is to be trimmed can't be made durable, so that nothing is trimmed, and that is certain. When the
// disk works again so does the trim, though nobody appends, and everything else is kept.
func TestATrimBehindASyncErrorSaysThatNothingWasTrimmed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	disk := failingOn(mem, vfs.OpSync, syscall.EIO)
	topic := openTopic(t, open(t, smallSegments(disk, driver.OS)), "t", 1)
	want := map[int64]string{}
	for i := range 5 {
		name := fmt.Sprint("record", i)
		want[send(t, topic, name, 9000)] = name
	}
	disk.broken.Store(true)
	for try := range 3 {
		err := topic.Trim(t.Context(), 0, 3)
		if !errors.Is(err, commitlog.ErrNotAppended) || errors.Is(err, commitlog.ErrUnknown) {
			t.Errorf("try %d: %v; expected one that says that nothing was trimmed", try, err)
		}
		wantBounds(t, topic, 0, 5)
	}
	disk.broken.Store(false)
	if err := topic.Trim(t.Context(), 0, 3); err != nil {
		t.Fatalf("the disk works again: %v", err)
	}
	for at := range int64(3) {
		delete(want, at)
	}
	for _, topic := range []*commitlog.Topic{topic, openTopic(t, open(t, smallSegments(mem.Crash(), driver.OS)), "t", 1)} {
		if got := values(t, topic, 0); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("it holds %v; expected %v", got, want)
		}
	}
}

// A trim up to the end of what one process sees: some of that is cut off, since its sync failed in
// another process. What is appended in its place is not trimmed.
func TestATrimTakesNothingThatComesInThePlaceOfWhatWasCutOff(t *testing.T) {
	t.Parallel()
	strict, lazy, disk := twoLevels(t)
	notDurable(t, strict, disk)
	disk.broken.Store(false)
	wantBounds(t, lazy, 0, 2)
	if err := lazy.Trim(t.Context(), 0, 2); err != nil {
		t.Fatal(err)
	}
	at := send(t, strict, "kept", 10)
	for _, topic := range []*commitlog.Topic{strict, lazy} {
		if got := values(t, topic, 0); len(got) != 1 || got[at] != "kept" {
			t.Errorf("it holds %v; expected the record that was acknowledged at %d", got, at)
		}
	}
}
