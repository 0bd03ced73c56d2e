package redisregistry

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
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
	x := &conn{Conn: slow, owner: &conns{timeout: time.Minute}}
	const request = "PING\r\n"
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

// The servers of a Cluster name each other, and a Sentinel the master.
func TestNoPasswordGoesInTheClearToAServerThatAnotherOneNames(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel() // nobody is called
	for what, c := range map[string]struct {
		cfg     Config
		tls     *tls.Config
		address string
		refused bool
	}{
		"another host":     {Config{Password: "x", Options: driver.Options{StrictTLS: true}}, nil, "192.0.2.1:6379", true},
		"of a Sentinel":    {Config{SentinelPassword: "x", Options: driver.Options{StrictTLS: true}}, nil, "192.0.2.1:6379", true},
		"this host":        {Config{Password: "x", Options: driver.Options{StrictTLS: true}}, nil, "127.0.0.1:6379", false},
		"with TLS":         {Config{Password: "x", Options: driver.Options{StrictTLS: true}}, &tls.Config{MinVersion: tls.VersionTLS12}, "192.0.2.1:6379", false},
		"without password": {Config{Options: driver.Options{StrictTLS: true}}, nil, "192.0.2.1:6379", false},
		"not strict":       {Config{Password: "x"}, nil, "192.0.2.1:6379", false},
	} {
		s := newStore(names{}, c.cfg)
		if _, err := s.conns.dial(over, c.address, new(net.Dialer), c.tls); err == nil || errors.Is(err, fault.Invalid) != c.refused {
			t.Errorf("%s: %v; refused is expected to be %v", what, err, c.refused)
		}
	}
}

func TestAServerThatSaysAByteNowAndThenIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				pace := time.NewTicker(time.Millisecond)
				defer pace.Stop()
				for b := []byte("+"); ; b = []byte("a") {
					if _, err := c.Write(b); err != nil {
						return
					}
					<-pace.C
				}
			})
		}
	})
	if _, err := open(t.Context(), Config{Addresses: []string{l.Addr().String()}, Timeout: 50 * time.Millisecond}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("%v; expected that it is given up", err)
	}
}
