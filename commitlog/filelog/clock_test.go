package filelog

import (
	"os"
	"path"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// aged makes a topic of several segments that keeps records for an hour, and opens it.
func aged(t *testing.T, mem *vfs.Mem) *store {
	t.Helper()
	c := Config{FS: mem, SegmentBytes: MinSegmentBytes}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 2, RetentionAgeMillis: time.Hour.Milliseconds()}))
	topic, err := l.Topic(t.Context(), "t")
	must(err)
	for i := range 100 {
		_, err := topic.Append(t.Context(), i%2, []commitlog.Record{{Value: make([]byte, 8<<10)}}, nil)
		must(err)
	}
	must(topic.Hold(t.Context(), "group", []int64{-1, 0}))
	must(l.Close())
	c.setDefaults()
	s, err := openStore(mem, &c, "t")
	must(err)
	t.Cleanup(func() { must(s.close()) })
	if top := s.page.written().Number(); top < 5 {
		t.Fatalf("%d segments; expected some", top)
	}
	return s
}

// stamp writes into the header of segment n when it was started, as a process would have done whose
// clock stood there.
func stamp(t *testing.T, s *store, n uint64, created time.Time) {
	t.Helper()
	h, err := s.headerOf(n)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.fs.OpenFile(path.Join(s.dir, segmentName(n)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h.Created = created.UnixMilli()
	if _, err := f.WriteAt(segment.AppendHeader(nil, h), 0); err != nil {
		t.Fatal(err)
	}
}

func TestAClockThatJumpsDropsNothingThatIsHeld(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, clock := range map[string]func(n uint64) time.Time{
		"back to 1970":   func(uint64) time.Time { return time.UnixMilli(0) },
		"before 1970":    func(uint64) time.Time { return now.Add(-200 * 365 * 24 * time.Hour) },
		"far ahead":      func(uint64) time.Time { return now.Add(200 * 365 * 24 * time.Hour) },
		"back and forth": func(n uint64) time.Time { return now.Add(time.Duration(1-2*int64(n%2)) * 10 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := aged(t, vfs.NewMem(1))
			for n := s.page.low() + 1; n <= s.page.written().Number(); n++ {
				stamp(t, s, n, clock(n))
			}
			low := s.page.low()
			if err := s.retain(); err != nil || s.page.low() != low {
				t.Errorf("retention gives %v and drops segments %d to %d, which are held", err, low, s.page.low())
			}
			for p := range 2 {
				if first, next, _, err := s.bounds(p); err != nil || first != 0 || next != 50 {
					t.Errorf("partition %d is readable from %d to %d, %v; expected 0 to 50", p, first, next, err)
				}
			}
		})
	}
}

// Without a hold, the age of a segment is what its header says: one from the future stays, and so
// does everything behind it.
func TestRetentionByAgeStopsAtASegmentFromTheFuture(t *testing.T) {
	t.Parallel()
	s := aged(t, vfs.NewMem(1))
	low := s.page.low()
	for n := low + 1; n <= s.page.written().Number(); n++ {
		stamp(t, s, n, time.Now().Add(-2*time.Hour))
	}
	stamp(t, s, low+3, time.Now().Add(2*time.Hour))
	if err := s.hold("group", []int64{-1, 50}); err != nil {
		t.Fatal(err)
	}
	if err := s.retain(); err != nil {
		t.Fatal(err)
	}
	if got := s.page.low(); got != low+2 {
		t.Errorf("the oldest segment is %d; expected %d, whose end is in the future", got, low+2)
	}
}
