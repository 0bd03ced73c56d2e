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
		l := newLease(s, false)
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
		l := newLease(s, false)
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
