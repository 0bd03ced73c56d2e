package filelog

import (
	"errors"
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A clock may be wrong: a host without a battery begins in 1970 and jumps to today, or a person types a wrong
// year. So a segment's header has two times. The
// host's monotonic clock tells the truth as long as the host runs, whatever is done to its time of
// day. That of an earlier run of the host means nothing, and there the time of day has to do; but not
// one that can't be: before this program existed, or in the future; and not in the first hour of a
// run, in which clocks are set. A segment of which no age is known is as old as the next one of which
// it is: it can't be younger. Without any, nothing is dropped.
const (
	settling = time.Hour
	// closedEarly: a segment is closed when it is so many times younger than the age at which its
	// records are dropped, so that they are dropped not much later.
	closedEarly = 8
	dawn        = 1_577_836_800_000 // 2020 begins
)

// moment is a time by both clocks, in milliseconds.
type moment struct {
	wall int64
	boot uint64 // of which run of the host up is
	up   int64
}

// clock is the host's.
type clock struct {
	boot  uint64
	up    int64 // when start was
	start time.Time
}

// clock tells the time of the host that fsys is on.
func (c *Config) clock(fsys vfs.FS) func() moment {
	if c.now != nil {
		return c.now
	}
	return newClock(fsys.BootID()).now
}

func newClock(bootID string) clock {
	h := fnv.New64a()
	h.Write([]byte(bootID))
	var ts unix.Timespec
	ahead, err := vfs.ClockAhead(unix.CLOCK_MONOTONIC) // others may be outside of this container
	if err = errors.Join(err, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)); err != nil {
		return clock{start: time.Now()} // the boot 0 is that of nothing
	}
	return clock{boot: h.Sum64() | 1, up: (ts.Nano() - ahead.Nanoseconds()) / int64(time.Millisecond), start: time.Now()}
}

func (c clock) now() moment {
	now := time.Now()
	return moment{wall: now.UnixMilli(), boot: c.boot, up: c.up + now.Sub(c.start).Milliseconds()}
}

func (m moment) stamp(h *segment.Header) { h.Created, h.Boot, h.Uptime = m.wall, m.boot, m.up }

func madeAt(h *segment.Header) moment { return moment{h.Created, h.Boot, h.Uptime} }

// since is how long ago then was, if that can be known.
func (m moment) since(then moment) (age time.Duration, known bool) {
	switch {
	case m.boot != 0 && m.boot == then.boot:
		return time.Duration(m.up-then.up) * time.Millisecond, m.up >= then.up
	case then.wall < dawn, then.wall > m.wall, time.Duration(m.up)*time.Millisecond < settling:
		return 0, false
	}
	return time.Duration(m.wall-then.wall) * time.Millisecond, true
}

// ageOf is how old at least the newest record of segment n is, if that is known: a later segment was
// made after it.
func (s *store) ageOf(n uint64) (age time.Duration, known bool, err error) {
	now := s.now()
	for top := s.page.Written().Number(); n < top && !known; {
		h, err := s.headerFrom(n + 1)
		if err != nil {
			return 0, false, err
		}
		age, known = now.since(madeAt(h))
		n = max(n+1, h.Number)
	}
	return age, known, nil
}

// retentionAge is at what age records may be dropped; 0: at none.
func (s *store) retentionAge() time.Duration {
	return time.Duration(s.config().RetentionAgeMillis) * time.Millisecond
}

// closeOld starts a new segment when the newest one gets old, so that what is in it can be dropped
// some day, however little is appended.
func (s *store) closeOld() error {
	age := s.retentionAge()
	if age == 0 {
		return nil
	}
	n, old, err := s.oldNewest(age)
	if err != nil || !old || !s.in.begin() { // the holder of the turn appends; there is another time
		return err
	}
	err = s.closeNewest(n)
	s.endTurn()
	if err == nil {
		err = s.lazySync() // the newest segment that is on stable storage is never dropped
	}
	return err
}

// closeNewest goes on in a new segment, unless another process did. The caller has the turn.
func (s *store) closeNewest(n uint64) error {
	if err := s.lockWrite(s.writeLock, s.stop); err != nil {
		return err
	}
	err := s.w.ready()
	if err == nil && s.w.seg.number == n && s.w.off > s.w.seg.h.Length {
		err = s.w.roll(0)
	}
	return errors.Join(err, s.writeLock.Unlock())
}

// oldNewest tells whether the newest segment holds something and is so old that it is to be closed.
func (s *store) oldNewest(age time.Duration) (n uint64, old bool, err error) {
	at := s.page.Written()
	g, err := s.segs.get(at.Number())
	if err != nil {
		return 0, false, err
	}
	defer s.segs.put(g)
	now, made := s.now(), madeAt(g.h)
	is, known := now.since(made)
	if !known && time.Duration(now.up)*time.Millisecond >= settling {
		return g.number, at.Off() > g.h.Length, nil // the next one will have a better time
	}
	return g.number, known && is >= age/closedEarly && at.Off() > g.h.Length, nil
}
