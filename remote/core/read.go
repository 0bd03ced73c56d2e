package core

import (
	"slices"
	"time"
)

// How lines get to a reader: on a stream, each once; in pages, until they were answered or passed.

// unsend takes back what was handed out and not sent yet: of a unit, or nil: all. The client never learns of it.
func (s *Session) unsend(u *Unit) {
	s.lines = slices.DeleteFunc(s.lines, func(l Line) bool {
		if l.Record == nil || l.N <= s.sent || u != nil && l.Unit != u {
			return false
		}
		r := l.Record
		s.vacate(r)
		s.pool.answer(r, Outcome{How: Released})
		return true
	})
}

// above returns the lines above a number.
func (s *Session) above(n int64) []Line {
	i, _ := slices.BinarySearchFunc(s.lines, n+1, func(l Line, n int64) int { return int(l.N - n) })
	return s.lines[i:]
}

// take returns the lines above a number, as sent now.
func (s *Session) take(now time.Duration, after int64) []Line {
	lines := s.above(after)
	if len(lines) == 0 {
		return nil
	}
	if newest := lines[len(lines)-1].N; newest > s.sent {
		// Lines that are sent within a short time share the time of the first: never too late a deadline.
		if k := len(s.marks) - 1; k >= 0 && now-s.marks[k].at < s.cfg.TTL/64 {
			s.marks[k].n = newest
		} else {
			s.marks = append(s.marks, mark{newest, now})
		}
		s.sent = newest
	}
	if s.cfg.Paged {
		return slices.Clone(lines)
	}
	s.lines = nil
	return lines
}

// Attach begins the stream of the session.
func (s *Session) Attach(now time.Duration) {
	s.reader = true
	s.pool.pump(now)
}

// Take returns what the stream has not sent yet.
func (s *Session) Take(now time.Duration) []Line { return s.take(now, s.sent) }

// Read begins to read a page: the lines above a number. done: here they are. Otherwise Fetch has them after a Wake.
// A later read takes the place of one that waits.
func (s *Session) Read(now time.Duration, after int64) (lines []Line, read uint64, done bool, err error) {
	if err := s.heard(now, after); err != nil {
		return nil, 0, false, err
	}
	s.read++
	s.wake() // a read that waits has ended
	again := after < s.sent
	s.lines = slices.DeleteFunc(s.lines, func(l Line) bool { return !s.keeps(&l, after) })
	if again { // what was given is given again, and nothing new is taken
		s.reader = false
		if len(s.lines) == 0 || s.lines[len(s.lines)-1].N <= after {
			s.add(Line{Kind: Beat})
		}
		return s.take(now, after), s.read, true, nil
	}
	s.reader = true
	s.pool.pump(now)
	lines, done = s.Fetch(now, s.read, after, false)
	return lines, s.read, done, nil
}

// keeps reports whether a line may be read again: a record until it is answered or void, another one until a reader
// has passed it. A reader that comes back with an older place has to learn of what is void, too: only its answer frees
// the place.
func (s *Session) keeps(l *Line, after int64) bool {
	owed := func(n int64) bool { return s.out[n] != nil }
	switch {
	case l.Record != nil:
		r := s.out[l.N]
		return r != nil && !r.void
	case l.N > after:
		return true
	default:
		return slices.ContainsFunc(l.Records, owed)
	}
}

// Fetch goes on with a read. over: its wait is over. It returns done without lines when the session or another read
// has ended it.
func (s *Session) Fetch(now time.Duration, read uint64, after int64, over bool) (lines []Line, done bool) {
	switch {
	case read != s.read:
		return nil, true
	case len(s.above(after)) > 0:
	case s.ended != "":
		return nil, true
	case over:
		s.add(Line{Kind: Beat})
	default:
		return nil, false
	}
	s.reader = false
	return s.take(now, after), true
}
