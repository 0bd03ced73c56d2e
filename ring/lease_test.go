package ring

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// stoppedSession is the session of a process that was stopped and goes on: nothing has told it yet
// that its time is up.
type stoppedSession struct {
	deadline time.Time
	done     chan struct{}
}

func (s *stoppedSession) ID() string                  { return "s" }
func (s *stoppedSession) Done() <-chan struct{}       { return s.done }
func (s *stoppedSession) Deadline() time.Time         { return s.deadline }
func (s *stoppedSession) Close(context.Context) error { return nil }

func TestALeaseEndsByTheClockThoughNobodySaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stoppedSession{deadline: time.Now().Add(time.Second), done: make(chan struct{})}
		l := newLease(s)
		time.Sleep(time.Second - 1)
		if !l.holds() {
			t.Error("it ended before the deadline")
		}
		s.deadline = time.Now().Add(time.Second) // renewed
		time.Sleep(time.Second - 1)
		if !l.holds() {
			t.Error("it did not follow a renewal")
		}
		ending := l.ending(time.Minute)
		time.Sleep(time.Nanosecond)
		if l.holds() || ending.holds() {
			t.Error("it holds at the deadline")
		}
	})
}

func TestALeaseEndsWithItsSessionAndItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stoppedSession{deadline: time.Now().Add(time.Hour), done: make(chan struct{})}
		l := newLease(s)
		ending := l.ending(time.Second)
		time.Sleep(time.Second)
		if !l.holds() || ending.holds() {
			t.Errorf("after its limit: the lease holds %t, the ending one %t", l.holds(), ending.holds())
		}
		close(s.done)
		if l.holds() {
			t.Error("it holds though the session is over")
		}
	})
}

// A deadline that came sooner, because the host was suspended, is seen by the time of day, which
// moved away from Go's clock. A step of the time of day alone changes nothing.
func TestALeaseAsksAgainWhenTheClocksMoveApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stoppedSession{deadline: time.Now().Add(time.Hour), done: make(chan struct{})}
		l := newLease(s)
		apart := func(d time.Duration) { l.known.Load().apart -= d }
		for _, step := range []time.Duration{time.Minute, -time.Minute} {
			apart(step)
			if !l.holds() {
				t.Errorf("a step of the time of day by %s ended it", step)
			}
			if moved := l.known.Load().apart; moved != 0 {
				t.Errorf("after it asked again it takes the clocks for %s apart", moved)
			}
		}
		s.deadline = time.Now()
		if !l.holds() {
			t.Error("it asked for the deadline though the clocks go together")
		}
		apart(time.Minute)
		if l.holds() {
			t.Error("it holds after a suspension that outlasted the session")
		}
	})
}
