package protocol

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
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

// doubting is a store that has lost a connection of this process, and may take that for its death.
type doubting struct {
	driver.Registry
	session doubtedSession
}

func (d *doubting) OpenSession(context.Context, time.Duration) (driver.Session, error) {
	return &d.session, nil
}

type doubtedSession struct {
	endedSession
	doubt bool
}

func (s *doubtedSession) Doubtful() bool { return s.doubt }

// A handler must not start while the store may have ended the session, though it is shared.
func TestADoubtAboutASessionIsSharedWithIt(t *testing.T) {
	t.Parallel()
	d := &doubting{session: doubtedSession{endedSession: endedSession{make(chan struct{})}}}
	x, err := NewSessions(registry.New(d)).Open(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, doubt := range []bool{false, true, false} {
		if d.session.doubt = doubt; x.Doubtful() != doubt {
			t.Errorf("doubtful for who shares it: %t; expected %t", !doubt, doubt)
		}
	}
	close(d.session.done)
	<-x.ended
}
