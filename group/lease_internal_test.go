package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// endless is a session whose deadline the test sets.
type endless struct {
	registry.Session
	until time.Time
}

func (s *endless) Deadline() time.Time { return s.until }

// While the host is suspended Go's clock stands still and the time of day goes on: the deadline known before counts no
// more, although it lies ahead by Go's clock.
func TestLeaseAsksForTheDeadlineAgainAfterASuspension(t *testing.T) {
	t.Parallel()
	s := &endless{until: time.Now().Add(time.Minute)}
	l := NewLease(s, true)
	if !l.Holds() {
		t.Fatal("a session with a minute left is over")
	}
	s.until = time.Now().Add(-time.Minute)
	l.wall -= int64(2 * time.Minute) // as if the host had been suspended for two
	if l.Holds() {
		t.Error("a session that ended in a suspension holds")
	}
}

// A step of the time of day alone changes nothing, and while the clocks go together nothing asks for the deadline.
func TestLeaseAsksForTheDeadlineOnlyWhenTheClocksMoveApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &endless{until: time.Now().Add(time.Hour)}
		l := NewLease(s, false)
		for _, step := range []time.Duration{time.Minute, -time.Minute} {
			l.wall -= int64(step)
			if !l.Holds() {
				t.Errorf("a step of the time of day by %s ended it", step)
			}
		}
		s.until = time.Now()
		if !l.Holds() {
			t.Error("it asked for the deadline though the clocks go together")
		}
		l.wall -= int64(time.Minute)
		if l.Holds() {
			t.Error("it holds after a suspension that outlasted the session")
		}
	})
}
