package registry

import (
	"context"
	"testing"
	"time"
)

// endedSession is one that has ended in its store.
type endedSession struct{ done chan struct{} }

func (endedSession) ID() string                  { return "ended" }
func (s endedSession) Done() <-chan struct{}     { return s.done }
func (endedSession) Deadline() time.Time         { return time.Now() }
func (endedSession) Close(context.Context) error { return nil }

// Between the end of a session and the moment at which all hear of it, somebody may ask for one.
func TestASessionThatHasEndedIsGivenToNobody(t *testing.T) {
	t.Parallel()
	s, inner := NewSessions(nil), endedSession{make(chan struct{})}
	s.open[time.Second] = &shared{Session: inner, of: s, ttl: time.Second, holders: 1, lost: make(chan struct{})}
	if s.have(time.Second) == nil {
		t.Fatal("a session that goes on is not shared")
	}
	close(inner.done)
	if s.have(time.Second) != nil {
		t.Error("a session that has ended is given away")
	}
}

// The entry of the last one who leaves goes with the session, so nobody may come and keep that meanwhile.
func TestTheSessionOfTheLastOneWhoLeavesIsGivenToNobody(t *testing.T) {
	t.Parallel()
	s := NewSessions(nil)
	x := &shared{Session: endedSession{make(chan struct{})}, of: s, ttl: time.Second, holders: 1, lost: make(chan struct{})}
	s.open[time.Second] = x
	if last := (&Share{shared: x}); !last.alone() {
		t.Fatal("who has it alone is not the last one")
	}
	if s.have(time.Second) != nil {
		t.Error("a session is given away that ends with who leaves it")
	}
}
