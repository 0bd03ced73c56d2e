package redisregistry

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/storeurl"
)

// conns are the connections of a store. Close ends them all. A connection that leaves a request
// unanswered for too long is half open, or its server hangs, so it is closed.
type conns struct {
	timeout time.Duration
	strict  bool // logins to other hosts need TLS, also to those that a server names

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// dial is what the client library connects with.
func (c *conns) dial(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	var inner net.Conn
	var err error
	if t == nil && c.strict {
		if err := storeurl.Plaintext("redis registry: a server that another one named,", []string{address}, true, nil); err != nil {
			return nil, &dialError{err}
		}
	}
	if t != nil {
		inner, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
	} else {
		inner, err = d.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, &dialError{err}
	}
	x := &conn{Conn: inner, owner: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		inner.Close()
		return nil, &dialError{net.ErrClosed}
	}
	if c.open == nil {
		c.open = make(map[*conn]struct{})
	}
	c.open[x] = struct{}{}
	return x, nil
}

// close breaks all connections off and refuses new ones.
func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for x := range open {
		x.Conn.Close()
	}
}

// conn has to hear something within the time-out after it sent something.
type conn struct {
	net.Conn
	owner *conns

	mu    sync.Mutex // the deadline goes with the flag; not held while reading or writing
	owing bool
}

// Write implements net.Conn.
func (x *conn) Write(b []byte) (int, error) {
	if err := x.owe(true, time.Now().Add(x.owner.timeout)); err != nil {
		return 0, err
	}
	return x.Conn.Write(b)
}

// Read implements net.Conn.
func (x *conn) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	if n > 0 {
		if err := x.owe(false, time.Time{}); err != nil {
			return n, err
		}
	}
	return n, err
}

// owe says whether an answer is owed, and by when when it was not so far.
func (x *conn) owe(owing bool, deadline time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.owing == owing {
		return nil
	}
	x.owing = owing
	return x.SetReadDeadline(deadline)
}

// Close implements net.Conn.
func (x *conn) Close() error {
	x.owner.mu.Lock()
	delete(x.owner.open, x)
	x.owner.mu.Unlock()
	return x.Conn.Close()
}
