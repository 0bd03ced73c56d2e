package filelog

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// aged makes a topic of several segments that keeps records for an hour, and opens it.
func aged(t *testing.T, mem *vfs.Mem) *store {
	t.Helper()
	return agedBy(t, mem, nil)
}

// agedBy is aged by another clock than the host's.
func agedBy(t *testing.T, mem *vfs.Mem, now func() moment) *store {
	t.Helper()
	c := Config{FS: mem, SegmentBytes: MinSegmentBytes, now: now}
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
	s, err := openStore(t.Context(), mem, &c, "t")
	must(err)
	t.Cleanup(func() { must(s.close()) })
	if top := s.page.Written().Number(); top < 5 {
		t.Fatalf("%d segments; expected some", top)
	}
	return s
}

// stamp writes into the header of segment n when it was made.
func stamp(t *testing.T, s *store, n uint64, made moment) {
	t.Helper()
	h, err := s.headerOf(n)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.fs.OpenFile(segmentName(n), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	made.stamp(h)
	if _, err := f.WriteAt(segment.AppendHeader(nil, h), 0); err != nil {
		t.Fatal(err)
	}
}

const (
	anotherRun = 1
	thisRun    = 2
)

// today is a moment of a host that runs for so long.
func today(up time.Duration) moment {
	return moment{wall: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), boot: thisRun, up: up.Milliseconds()}
}

// before is a moment by both clocks; the time of day may have been wrong by so much.
func (m moment) before(d, wrong time.Duration) moment {
	return moment{wall: m.wall - d.Milliseconds() + wrong.Milliseconds(), boot: m.boot, up: m.up - d.Milliseconds()}
}

// inAnotherRun is that moment before the host was restarted.
func (m moment) inAnotherRun() moment { return moment{wall: m.wall, boot: anotherRun, up: m.up} }

func TestAClockThatJumpsDropsNothingThatIsHeld(t *testing.T) {
	t.Parallel()
	now := today(24 * time.Hour)
	const year = 365 * 24 * time.Hour
	for name, clock := range map[string]func(n uint64) moment{
		"back to 1970":   func(uint64) moment { return moment{boot: anotherRun} },
		"before 1970":    func(uint64) moment { return now.before(200*year, 0).inAnotherRun() },
		"far ahead":      func(uint64) moment { return now.before(0, 200*year).inAnotherRun() },
		"long ago":       func(uint64) moment { return now.before(10*time.Hour, 0) },
		"back and forth": func(n uint64) moment { return now.before(0, time.Duration(1-2*int64(n%2))*10*time.Hour).inAnotherRun() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := agedBy(t, vfs.NewMem(1), func() moment { return now })
			for n := s.page.Low() + 1; n <= s.page.Written().Number(); n++ {
				stamp(t, s, n, clock(n))
			}
			low := s.page.Low()
			if err := s.retain(); err != nil || s.page.Low() != low {
				t.Errorf("retention gives %v and drops segments %d to %d, which are held", err, low, s.page.Low())
			}
			for p := range 2 {
				if first, next, _, err := s.bounds(p); err != nil || first != 0 || next != 50 {
					t.Errorf("partition %d is readable from %d to %d, %v; expected 0 to 50", p, first, next, err)
				}
			}
		})
	}
}

// Nothing is held, and records are kept for an hour.
func TestTheAgeOfASegmentIsNoMoreThanIsKnown(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		up   time.Duration // of this run
		made func(now moment, n uint64) moment
		drop uint64 // how many segments are dropped; all: as many as can be
	}{
		"young":                              {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(50*time.Minute, 0) }, 0},
		"old":                                {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(70*time.Minute, 0) }, all},
		"young, made in 1970":                {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(50*time.Minute, -56*year) }, 0},
		"old, made in 1970":                  {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(70*time.Minute, -56*year) }, all},
		"young, the clock was set ahead":     {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(50*time.Minute, -4*year) }, 0},
		"old, made in the future":            {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(70*time.Minute, 4*year) }, all},
		"before a restart, young":            {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(50*time.Minute, 0).inAnotherRun() }, 0},
		"before a restart, old":              {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(70*time.Minute, 0).inAnotherRun() }, all},
		"before a restart, in 1970":          {24 * time.Hour, func(moment, uint64) moment { return moment{boot: anotherRun} }, 0},
		"before a restart, in the future":    {24 * time.Hour, func(now moment, _ uint64) moment { return now.before(70*time.Minute, year).inAnotherRun() }, 0},
		"a restart that set the clock ahead": {time.Minute, func(now moment, _ uint64) moment { return now.before(50*time.Minute, -4*year).inAnotherRun() }, 0},
		"in 1970 before a restart, the third after it, long ago": {24 * time.Hour, func(now moment, n uint64) moment {
			if n > 3 {
				return now.before(70*time.Minute, 0)
			}
			return moment{boot: anotherRun}
		}, all},
		"in 1970 before a restart, the fourth after it, a moment ago": {24 * time.Hour, func(now moment, n uint64) moment {
			if n > 3 {
				return now.before(time.Minute, 0)
			}
			return moment{boot: anotherRun}
		}, 0},
		"two are old": {24 * time.Hour, func(now moment, n uint64) moment {
			if n > 3 {
				return now.before(time.Minute, 0)
			}
			return now.before(2*time.Hour, 0)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := today(c.up)
			s := agedBy(t, vfs.NewMem(1), func() moment { return now })
			if err := s.hold("group", []int64{-1, 50}); err != nil {
				t.Fatal(err)
			}
			low, top := s.page.Low(), s.page.Written().Number()
			for n := low + 1; n <= top; n++ {
				stamp(t, s, n, c.made(now, n))
			}
			if err := s.retain(); err != nil {
				t.Fatal(err)
			}
			want := low + c.drop
			if c.drop == all {
				want = top
			}
			if got := s.page.Low(); got != want {
				t.Errorf("the oldest segment of %d to %d is %d; expected %d", low, top, got, want)
			}
		})
	}
}

const all = 1 << 40

// A topic that takes a record now and then never fills a segment, and drops its records all the same.
func TestASlowTopicDropsWhatIsOld(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64 // minutes
	c := Config{FS: vfs.NewMem(1), now: func() moment {
		return today(24*time.Hour).before(-time.Duration(passed.Load())*time.Minute, 0)
	}}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1, RetentionAgeMillis: time.Hour.Milliseconds()}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.setDefaults()
	s, err := openStore(t.Context(), c.FS, &c, "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	kept := func() (first, n int64) {
		t.Helper()
		for _, c := range s.chores()[3:] { // those before prepare segments, and are the maintenance's alone
			if err := c.do(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		first, next, _, err := s.bounds(0)
		if err != nil {
			t.Fatal(err)
		}
		return first, next - first
	}
	for i := range 300 { // a day
		done := make(chan error, 1)
		req := driver.AppendRequest{Records: []driver.Record{{Value: []byte("x")}}}
		if err := s.appendInline(t.Context(), &req, 1, func(_ int64, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		passed.Add(5)
		if _, n := kept(); n > 15 || i >= 12 && n < 12 {
			t.Fatalf("after %d records, one each five minutes, %d are kept; expected those of an hour, and some more", i+1, n)
		}
	}
	if l, err := s.list(); err != nil || len(l.segments) > 2*closedEarly {
		t.Errorf("they lie in %d segments, %v", len(l.segments), err)
	}
	for range 15 {
		passed.Add(5)
		kept()
	}
	if first, n := kept(); n != 0 || first != 300 {
		t.Errorf("75 minutes after the last record, %d are kept from %d on", n, first)
	}
	top := s.page.Written()
	for range 10 { // there is nothing to close any more
		passed.Add(60)
		if kept(); s.page.Written() != top {
			t.Fatal("a segment without records was closed")
		}
	}
}
