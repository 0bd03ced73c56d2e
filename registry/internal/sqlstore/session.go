package sqlstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// A session is a row with its time of expiry, by the clock of the store. From that moment on it has expired,
// whether the row is still there or not: each statement that depends on it checks, and a renewal then does
// nothing. Ending a session deletes its row and the entries bound to it in one transaction, under locks on
// all of them, so that no entry is bound to it meanwhile.

// OpenSession implements driver.Registry.
func (s *Store) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := s.announce(ctx); err != nil {
		return nil, s.wrap(ctx, "announce this process", err)
	}
	id := rand.Text()[:20]
	var opened lease.Asked
	err = s.transact(ctx, "open a session", func(ctx context.Context, q Querier) (bool, error) {
		var err error
		opened, err = lease.Ask(s.link, func() error {
			_, err := q.ExecContext(ctx, s.d.bind("INSERT INTO ringfence_sessions (id, process, ttl, expires) VALUES (%s, %s, %s, "+s.in(ttl)+")", 3),
				id, s.cfg.Handle, ttl.Microseconds())
			return err
		})
		if err != nil {
			return false, err
		}
		return true, s.publish(ctx, q, []string{sessionsKey})
	})
	if err != nil {
		return nil, err
	}
	poke(s.ring)
	x := s.own.Start(lease.Config{
		ID: id, TTL: ttl, Opened: opened, Link: s.link, Logger: s.log, Gate: s.gate,
		Renew: func(ctx context.Context) error { return s.renew(ctx, id, ttl) },
		End:   func(ctx context.Context) error { return s.endSessions(ctx, []string{id}, "") },
	})
	if x == nil {
		return nil, s.closedError() // it runs out
	}
	poke(s.keep)
	return x, nil
}

// renew is one statement, which leaves an expired session alone.
func (s *Store) renew(ctx context.Context, id string, ttl time.Duration) error {
	if err := s.cfg.Intact(); err != nil {
		return fmt.Errorf("session %q: %w: %w", id, fault.Fenced, err)
	}
	renew := s.d.bind("UPDATE ringfence_sessions SET expires = "+s.in(ttl)+" WHERE id = %s AND expires > "+s.d.Now(), 1)
	for try := 0; ; try++ {
		res, err := s.cfg.Live.ExecContext(ctx, renew, id)
		if err == nil {
			n, err := res.RowsAffected()
			if err == nil && n == 0 {
				return fmt.Errorf("session %q has ended: %w", id, fault.Fenced)
			}
			return err
		}
		if !s.d.again(err) {
			return s.wrap(ctx, "renew a session", err)
		}
		if wait := pause(ctx, backoff(try)); wait != nil {
			return s.wrap(ctx, "renew a session", err)
		}
	}
}

// in is an expression for the time so long from now, by the store's clock.
func (s *Store) in(d time.Duration) string {
	return fmt.Sprintf("%s + %d", s.d.Now(), d.Microseconds())
}

// endSessions ends those of the sessions that meet a condition, and removes their entries; some may have ended
// already. Their rows are locked meanwhile, so no other key is bound to them.
func (s *Store) endSessions(ctx context.Context, ids []string, condition string) error {
	var keys []string
	err := s.transact(ctx, "end a session", func(ctx context.Context, q Querier) (bool, error) {
		keys = []string{sessionsKey}
		found, err := Column[string](ctx, q, "SELECT id FROM ringfence_sessions WHERE id IN "+s.d.list(len(ids))+condition+" ORDER BY id"+s.d.ForUpdate, anys(ids)...)
		if err != nil || len(found) == 0 {
			return false, err
		}
		in := " IN " + s.d.list(len(found))
		bound, err := Column[string](ctx, q, "SELECT k FROM ringfence_entries WHERE session_id"+in+" ORDER BY k"+s.d.ForUpdate, anys(found)...)
		if err != nil {
			return false, err
		}
		keys = append(keys, bound...)
		if err := s.deleteKeys(ctx, q, bound); err != nil {
			return false, err
		}
		if _, err := q.ExecContext(ctx, "DELETE FROM ringfence_sessions WHERE id"+in, anys(found)...); err != nil {
			return false, err
		}
		return true, s.publish(ctx, q, keys)
	})
	if err == nil {
		s.changed(keys)
	}
	return err
}

// disown ends sessions that the table lacks, while entries are bound to them.
func (s *Store) disown(ctx context.Context) error {
	if s.d.Orphans == "" {
		return nil
	}
	var n int
	if err := s.cfg.Reads.QueryRowContext(ctx, s.d.Orphaned).Scan(&n); err != nil || n == 0 {
		return err
	}
	return s.transact(ctx, "end sessions that are in no file", func(ctx context.Context, q Querier) (bool, error) {
		_, err := q.ExecContext(ctx, s.d.Orphans)
		return true, err
	})
}
