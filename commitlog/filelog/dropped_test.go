package filelog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A reader that does nothing gives the space back of what others dropped, within the half minute that is
// promised.
func TestAnIdleProcessLetsGoOfWhatWasDropped(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]int64{"records are kept for good": 0, "for a day": 24 * time.Hour.Milliseconds()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := vfs.NewMem(1)
			l, topic := madeTopic(t, machine, Config{SegmentBytes: MinSegmentBytes}, commitlog.TopicConfig{Partitions: 2, RetentionAgeMillis: age})
			fillTwo(t, topic)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			// Nobody appends in the bubble: a futex knows nothing of its time.
			synctest.Test(t, func(t *testing.T) { letsGo(t, machine) })
		})
	}
}

func letsGo(t *testing.T, machine *vfs.Mem) {
	t.Helper()
	const promised = 30 * time.Second // in docs/guide/operations.md
	enter := func() *store { return storeOf(t, machine.Process(), Config{SegmentBytes: MinSegmentBytes}) }
	idle := enter()
	defer idle.close()
	for p := range 2 {
		for at := range 50 {
			if _, _, err := idle.read(&driver.ReadRequest{Partition: p, Offset: int64(at), MaxBytes: 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(promised / 3) // it is not at the moment at which it looks that others drop something
	other := enter()
	for p := range 2 {
		if err := other.trim(p, 49); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	open := func() (below int) {
		idle.segs.mu.Lock()
		defer idle.segs.mu.Unlock()
		for n := range idle.segs.open {
			if n < idle.page.Low() {
				below++
			}
		}
		return below
	}
	if open() < 3 {
		t.Fatalf("%d dropped segments are open; expected some", open())
	}
	time.Sleep(promised)
	synctest.Wait()
	if n := open(); n != 0 {
		t.Errorf("%d segments are open that were dropped %s ago", n, promised)
	}
	if recs, _, err := idle.read(&driver.ReadRequest{Offset: 49, MaxBytes: 1}, nil); err != nil || len(recs) != 1 {
		t.Errorf("it reads %d records then, %v", len(recs), err)
	}
}
