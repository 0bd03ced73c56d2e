package memregistry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

// session is the process's side of a session: a goroutine that renews it.
type session struct {
	c     *client
	id    string
	ttl   time.Duration
	poked chan struct{} // the faults changed
	stop  chan struct{}
	once  sync.Once
	done  chan struct{} // closed by run when the session is over
	wg    sync.WaitGroup

	mu       sync.Mutex
	deadline time.Time
}

func (c *client) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	s := &session{
		c: c, id: c.store.openLease(ttl), ttl: ttl,
		poked: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		deadline: sent.Add(ttl),
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.sessions[s] = struct{}{}
		s.wg.Go(s.run) // joined by end
	}
	c.mu.Unlock()
	if closed {
		c.store.endLease(s.id)
		return nil, fmt.Errorf("memory registry: %w", driver.ErrClosed)
	}
	return s, nil
}

func (s *session) ID() string            { return s.id }
func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

func (s *session) Close(context.Context) error {
	s.end()
	return nil
}

func (s *session) end() {
	s.once.Do(func() { close(s.stop) })
	s.wg.Wait()
	s.c.mu.Lock()
	delete(s.c.sessions, s)
	s.c.mu.Unlock()
	s.c.store.endLease(s.id)
}

// run renews until the session is closed, expired in the store, or past its local deadline.
func (s *session) run() {
	defer close(s.done)
	for {
		s.c.mu.Lock()
		frozen, outage := s.c.f.frozen, s.c.f.outage
		s.c.mu.Unlock()
		wait := s.ttl / 3
		switch {
		case frozen: // a stopped process does nothing
			select {
			case <-s.poked:
			case <-s.stop:
				return
			}
			continue
		case outage:
			if wait = time.Until(s.Deadline()); wait <= 0 {
				return
			}
		default:
			sent := time.Now()
			if !s.c.store.renewLease(s.id) {
				return
			}
			s.mu.Lock()
			s.deadline = sent.Add(s.ttl)
			s.mu.Unlock()
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.poked:
		case <-s.stop:
			t.Stop()
			return
		}
		t.Stop()
	}
}
