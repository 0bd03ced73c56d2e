package group

import (
	"testing"
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
	l := newLease(s)
	if !l.holds() {
		t.Fatal("a session with a minute left is over")
	}
	s.until = time.Now().Add(-time.Minute)
	l.wall -= int64(2 * time.Minute) // as if the host had been suspended for two
	if l.holds() {
		t.Error("a session that ended in a suspension holds")
	}
}
