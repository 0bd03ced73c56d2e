package redisregistry

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowToArm holds up whoever sets a deadline, as a scheduler may, until another has cleared it or
// had the time to.
type slowToArm struct {
	net.Conn
	arming, cleared chan struct{}
	armed           atomic.Bool
}

func (c *slowToArm) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.armed.Store(false)
		close(c.cleared)
		return nil
	}
	close(c.arming)
	select {
	case <-c.cleared:
	case <-time.After(50 * time.Millisecond):
	}
	c.armed.Store(true)
	return nil
}

// What is pushed may come while a request that is about to be sent sets its deadline.
func TestAConnectionThatOwesNothingHasNoDeadline(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	slow := &slowToArm{Conn: near, arming: make(chan struct{}), cleared: make(chan struct{})}
	x := &conn{Conn: slow, owner: &conns{timeout: time.Minute}, guard: newGuard()}
	request := words("PING")
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := x.Write([]byte(request)); err != nil {
			t.Error(err)
		}
	})
	<-slow.arming
	both.Go(func() {
		if _, err := x.Read(make([]byte, 8)); err != nil {
			t.Error(err)
		}
	})
	if _, err := far.Write([]byte(">0\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(far, make([]byte, len(request))); err != nil {
		t.Fatal(err)
	}
	both.Wait()
	if slow.armed.Load() {
		t.Error("nothing is owed, and the connection breaks for want of an answer")
	}
}
