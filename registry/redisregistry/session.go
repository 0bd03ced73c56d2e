package redisregistry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// OpenSession implements driver.Registry.
func (s *store) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if err := s.connected(ctx); err != nil { // a session needs the link
		return nil, err
	}
	ttl = ttl.Truncate(time.Millisecond)
	s.mu.Lock()
	s.opened++
	id := s.process + "." + strconv.Itoa(s.opened)
	s.mu.Unlock()
	opened, err := lease.Ask(s.seen, func() error { return s.begin(ctx, id, ttl) })
	if err != nil {
		return nil, err
	}
	x := s.own.Start(lease.Config{
		ID: id, TTL: ttl, Opened: opened, Link: s.seen, Logger: s.log, Gate: s.gate,
		Renew: func(ctx context.Context) error { return s.renew(ctx, id, ttl) },
		End:   func(ctx context.Context) error { return s.end(ctx, id) },
	})
	if x == nil {
		return nil, fmt.Errorf("redis registry: %w", driver.ErrClosed) // it expires
	}
	return x, nil
}

func (s *store) begin(ctx context.Context, id string, ttl time.Duration) error {
	bounded, cancel := s.patience(ctx)
	defer cancel()
	keys := append(append(make([]string, 0, len(s.names.keys)+1), s.names.keys...), s.names.session+id)
	err := s.open.Exec(bounded, s.client, keys, []string{id, strconv.FormatInt(ttl.Milliseconds(), 10)}).Error()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return classify("opening a session", err, fault.Unavailable) // an unknown session expires
}

// renew starts the TTL anew at the server. A session that has ended has no key.
func (s *store) renew(ctx context.Context, id string, ttl time.Duration) error {
	n, err := s.client.Do(ctx, s.client.B().Pexpire().Key(s.names.session+id).Milliseconds(ttl.Milliseconds()).Build()).AsInt64()
	if err != nil {
		return classify("renewing a session", err, fault.Unavailable)
	}
	if n == 0 {
		return fmt.Errorf("redis registry: session %s has ended in the store: %w", id, driver.ErrFenced)
	}
	return nil
}

func (s *store) end(ctx context.Context, id string) error {
	_, err := s.count(ctx, "s:"+id)
	if errors.Is(err, fault.Unavailable) {
		_, err = s.count(ctx, "s:"+id) // the connection may have been a stale one
	}
	if err != nil {
		return fmt.Errorf("session %s ends after its TTL: %w", id, err)
	}
	return nil
}

// renewAll finds out after a reconnect which sessions the store still has.
func (s *store) renewAll(ctx context.Context) {
	for _, id := range s.own.IDs() {
		n, err := s.client.Do(ctx, s.client.B().Exists().Key(s.names.session+id).Build()).AsInt64()
		if err == nil && n == 0 {
			s.own.Lost(id)
		}
	}
}

// count runs the sweep: it ends the expired sessions and those that words name. It returns the processes with
// sessions and without presence.
func (s *store) count(ctx context.Context, words ...string) (missing []string, err error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	args := append([]string{s.names.session, s.names.presence, s.names.changes}, words...)
	missing, err = s.sweep.Exec(ctx, s.client, s.names.keys, args).AsStrSlice()
	if err != nil {
		return nil, classify("looking for dead processes", err, fault.Unavailable)
	}
	return missing, nil
}
