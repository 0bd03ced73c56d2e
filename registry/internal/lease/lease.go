// Package lease is the process's side of a session whose store wants a renewal within every TTL: it renews,
// and keeps the local deadline after which the process must take the session for over.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
)

// A session is renewed three times in its TTL, and a failed renewal is repeated soon.
const (
	renewals = 3
	retries  = 20
)

// Config is how to keep a session in a store.
type Config struct {
	ID  string        // unique for ever
	TTL time.Duration // as the store counts it
	// Opened is the request that opened the session.
	Opened Asked
	// Link is how other processes see this one. nil: the store ends sessions by their TTL only.
	Link *Link
	// Renew renews the session in the store. fault.Fenced is final: the session has ended there. Any other
	// error is tried again. ctx ends at the deadline.
	Renew func(ctx context.Context) error
	// End removes the session and the entries bound to it from the store, if they are still there.
	End func(ctx context.Context) error
	// Closed is called once, when the session is over for this process. nil: no call.
	Closed func(*Session)
	Logger *slog.Logger // not nil
	// Gate stops the renewals while it is shut. nil: never.
	Gate *hook.Gate
}

// Session is a driver.Session that a goroutine renews until it is over.
type Session struct {
	cfg     Config
	renewed atomic.Pointer[Asked] // the last good renewal
	done    chan struct{}
	lost    chan struct{} // closed when it has ended in the store
	stop    context.CancelFunc
	once    sync.Once
	lose    sync.Once
	wg      sync.WaitGroup
}

// Start renews a session that was opened in the store, until Close.
func Start(cfg Config) *Session {
	s := &Session{cfg: cfg, done: make(chan struct{}), lost: make(chan struct{})}
	s.renewed.Store(&cfg.Opened)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.wg.Go(func() { s.run(ctx) }) // joined by stopRenewals
	return s
}

// ID implements driver.Session.
func (s *Session) ID() string { return s.cfg.ID }

// Done implements driver.Session.
func (s *Session) Done() <-chan struct{} { return s.done }

// Deadline implements driver.Session. It comes earlier by the time that the host was suspended, if that is
// known.
func (s *Session) Deadline() time.Time { return s.renewed.Load().at.end(s.cfg.TTL) }

// Doubtful implements driver.Doubter.
func (s *Session) Doubtful() bool {
	age := s.cfg.Link.Age()
	return age%2 == 1 || age != s.renewed.Load().link
}

// Lost ends the session here, because it has ended in the store.
func (s *Session) Lost() { s.lose.Do(func() { close(s.lost) }) }

// Close implements driver.Session. The first call removes the session from the store. If that can't be reached,
// the session ends there with its TTL.
func (s *Session) Close(ctx context.Context) error {
	if !s.stopRenewals() {
		return nil
	}
	return s.cfg.End(ctx)
}

// Abandon stops the renewals without a word to the store, as the death of the process would.
func (s *Session) Abandon() { s.stopRenewals() }

func (s *Session) stopRenewals() (first bool) {
	s.once.Do(func() { first = true })
	s.stop()
	s.wg.Wait()
	return first
}

// run renews until the session is over.
func (s *Session) run(ctx context.Context) {
	if s.cfg.Closed != nil {
		defer s.cfg.Closed(s)
	}
	defer close(s.done)
	next := time.NewTimer(time.Until(s.cfg.Opened.at.Add(s.cfg.TTL / renewals)))
	defer next.Stop()
	warned := false
	last := s.cfg.Opened
	for s.rest(ctx, last.link, next) {
		deadline := s.Deadline()
		if !time.Now().Before(deadline) {
			s.cfg.Logger.Warn("session ran out: its store was not reached in time", "session", s.cfg.ID, "ttl", s.cfg.TTL)
			return
		}
		asked, err := Ask(s.cfg.Link, func() error { return s.renew(ctx, deadline) })
		last = asked
		switch {
		case err == nil:
			s.renewed.Store(&asked)
			warned = false
			next.Reset(time.Until(asked.at.Add(s.cfg.TTL / renewals)))
		case errors.Is(err, fault.Fenced):
			return
		default:
			if !warned && ctx.Err() == nil {
				warned = true
				s.cfg.Logger.Warn("a session could not be renewed; trying again until its deadline",
					"session", s.cfg.ID, "left", time.Until(deadline), "error", err)
			}
			next.Reset(min(s.cfg.TTL/retries, time.Until(deadline)))
		}
	}
}

// rest waits for the time to renew: by the timer, or because the link, which had that age at the last try, was
// restored. It returns false when the session is over.
func (s *Session) rest(ctx context.Context, age int64, next *time.Timer) bool {
	now, restored := s.cfg.Link.look()
	if now%2 == 0 && now != age {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.lost:
		return false
	case <-restored:
	case <-next.C:
	}
	return true
}

// renew is one try. It takes at most a third of the TTL, so that a half-open connection leaves time for another
// try, and ends with the deadline.
func (s *Session) renew(ctx context.Context, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, s.cfg.TTL/renewals)
	defer stop()
	if err := s.cfg.Gate.Pass(ctx); err != nil {
		return err
	}
	return s.cfg.Renew(ctx)
}
