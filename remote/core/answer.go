package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Answers takes a POST. An error says that it is wrong, and nothing of it was taken.
func (s *Session) Answers(now time.Duration, a *Post) ([]Refusal, error) {
	if a.Commit > max(a.Seen, s.seen) {
		return nil, fmt.Errorf("commit %d is above seen, which is %d; expected a line that was read: %w", a.Commit, max(a.Seen, s.seen), fault.Invalid)
	}
	if err := s.heard(now, a.Seen); err != nil {
		return nil, err
	}
	var refused []Refusal
	one := func(n int64, o Outcome) {
		if why := s.one(n, o); why != "" {
			refused = append(refused, Refusal{n, why})
		}
	}
	for _, f := range a.Failed {
		one(f.N, Outcome{How: Failed, Error: f.Error, Pause: f.Pause, Permanent: f.Permanent, Outage: f.Outage})
	}
	for _, n := range a.Released {
		one(n, Outcome{How: Released, Pause: time.Second})
	}
	for _, n := range a.Done {
		one(n, Outcome{How: Done})
	}
	s.commit(a.Commit, one, func(n int64) {
		if !slices.Contains(refused, Refusal{n, Fenced}) { // by another answer in it
			refused = append(refused, Refusal{n, Fenced})
		}
	})
	s.pool.pump(now)
	return refused, nil
}

// commit is done for all that is out up to a line. A repeated one, or a higher one after a lost reply, names those again
// that were refused.
func (s *Session) commit(upTo int64, one func(int64, Outcome), fenced func(int64)) {
	if upTo == 0 {
		return
	}
	s.upTo = max(s.upTo, upTo)
	for _, r := range s.sorted() {
		if r.n > upTo {
			break
		}
		one(r.n, Outcome{How: Done})
		if s.memo[r.n] == void {
			s.refused = append(s.refused, r.n)
		}
	}
	s.refused = slices.DeleteFunc(s.refused, func(n int64) bool { return s.memo[n] == 0 })
	for _, n := range s.refused {
		if n <= upTo {
			fenced(n)
		}
	}
}

// one takes the answer for a line.
func (s *Session) one(n int64, o Outcome) Why {
	r := s.out[n]
	if r == nil || n > s.sent {
		switch was := s.memo[n]; was {
		case o.How:
			return ""
		case 0:
			return Unknown
		case void:
			return Fenced
		default:
			return Conflict
		}
	}
	if r.void {
		s.free(r, void)
		return Fenced
	}
	s.free(r, o.How)
	if r.Unit.draining && o.How == Released {
		o.Pause = 0
	}
	s.pool.answer(r, o)
	return ""
}

// Refused notes that the engine did not take an answer, so that a repeated one learns it too.
func (s *Session) Refused(n int64) {
	if s.memo[n] == Done && n <= s.upTo {
		s.refused = append(s.refused, n)
	}
	if s.memo[n] != 0 {
		s.memo[n] = void
	}
}

// Line returns the number under which r is, or was last, handed out.
func (r *Record) Line() int64 { return r.n }
