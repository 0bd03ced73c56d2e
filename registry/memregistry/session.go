package memregistry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// session is the process's side of a session. A stopped process hangs in its renewal.
type session struct {
	*lease.Session
	stop chan struct{}
	once sync.Once
}

// OpenSession implements driver.Registry.
func (c *client) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	var id string
	opened, err := lease.Ask(nil, func() error {
		if err := c.enter(ctx); err != nil {
			return err
		}
		id = c.store.openLease(ttl)
		return nil
	})
	if err != nil {
		return nil, err
	}
	x := &session{stop: make(chan struct{})}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		x.Session = lease.Start(lease.Config{
			ID: id, TTL: ttl, Opened: opened, Logger: c.log,
			Renew:  func(ctx context.Context) error { return c.renew(ctx, x, id) },
			End:    func(context.Context) error { c.store.endLease(id); return nil },
			Closed: func(*lease.Session) { c.forget(x) },
		})
		c.sessions[x] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		c.store.endLease(id)
		return nil, fmt.Errorf("memory registry: %w", driver.ErrClosed)
	}
	return x, nil
}

// renew is one renewal.
func (c *client) renew(ctx context.Context, x *session, id string) error {
	if thawed := c.stopped(); thawed != nil {
		select {
		case <-thawed: // which may be after ctx
		case <-x.stop:
		}
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	if !c.store.renewLease(id) {
		return fmt.Errorf("memory registry: session %s has ended: %w", id, driver.ErrFenced)
	}
	return nil
}

// Close implements driver.Session.
func (x *session) Close(ctx context.Context) error {
	x.once.Do(func() { close(x.stop) })
	return x.Session.Close(ctx)
}

func (c *client) forget(x *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, x)
}
