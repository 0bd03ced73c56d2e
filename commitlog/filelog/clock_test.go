package filelog

import (
	"errors"
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
	c := Config{SegmentBytes: MinSegmentBytes, now: now}
	l, topic := madeTopic(t, mem, c, commitlog.TopicConfig{Partitions: 2, RetentionAgeMillis: time.Hour.Milliseconds()})
	fillTwo(t, topic)
	if err := errors.Join(topic.Hold(t.Context(), "group", []int64{-1, 0}), l.Close()); err != nil {
		t.Fatal(err)
	}
	s := storeOf(t, mem, c)
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
	c := Config{now: func() moment {
		return today(24*time.Hour).before(-time.Duration(passed.Load())*time.Minute, 0)
	}}
	mem := vfs.NewMem(1)
	l, _ := madeTopic(t, mem, c, commitlog.TopicConfig{Partitions: 1, RetentionAgeMillis: time.Hour.Milliseconds()})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := storeOf(t, mem, c)
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
