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
			fillOne(t, machine, age)
			// Nobody appends in the bubble: a futex knows nothing of its time.
			synctest.Test(t, func(t *testing.T) { letsGo(t, machine) })
		})
	}
}

// fillOne makes a topic of several segments: 50 records in each of two partitions.
func fillOne(t *testing.T, fsys vfs.FS, age int64) {
	t.Helper()
	l, err := Open(t.Context(), Config{FS: fsys, SegmentBytes: MinSegmentBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 2, RetentionAgeMillis: age}); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := topic.Append(t.Context(), i%2, []commitlog.Record{{Value: make([]byte, 8<<10)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func letsGo(t *testing.T, machine *vfs.Mem) {
	t.Helper()
	const promised = 30 * time.Second // in docs/guide/operations.md
	enter := func() *store {
		c := Config{SegmentBytes: MinSegmentBytes}
		c.setDefaults()
		s, err := openStore(t.Context(), machine.Process(), &c, "t")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
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
