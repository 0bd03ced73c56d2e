package sqlstore

import (
	"context"
	"errors"
	mrand "math/rand/v2"
	"slices"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/presence"
)

// Processes watch each other: each waits for the death of its neighbours in the ring of processes with
// sessions, by what Signals offers (a named lock in MariaDB, a FIFO beside SQLite). So few processes notice
// a death, at once, and end its sessions for all. Besides, each process ends in rounds what has expired by
// the clock of the store, and finds out which of its own sessions others have ended.

const (
	neighbours   = 2 // how many processes this one watches
	expireAtOnce = 8 // sessions
	shortRound   = 100 * time.Millisecond
	longRound    = 3 * time.Second
	justAfter    = 5 * time.Millisecond   // a session has run out
	calm         = 500 * time.Millisecond // between two looks, however many sessions are about to run out
	rewatch      = 500 * time.Millisecond // until a process that can't be watched is tried again
)

// keepSessions ends sessions that expired and those of dead neighbours, and keeps the presence of this process.
func (s *Store) keepSessions() {
	watched := presence.Watchers[string]{Watch: s.await}
	defer watched.Stop()
	for {
		next, ring := s.round()
		watched.Set(s.ctx, ring)
		timer := time.NewTimer(next)
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-s.keep:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// round reads all sessions once. It returns when to read again, and the processes to watch.
func (s *Store) round() (next time.Duration, ring []string) {
	if s.gate.Pass(s.ctx) != nil {
		return shortRound, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	s.keepPresence(ctx)
	before := s.own.IDs()
	all, err := s.sessions(ctx)
	if err != nil {
		return time.Second, nil // the listener logs it
	}
	var seen presence.Reading[string, string]
	next = longRound
	var expired []string
	for _, x := range all {
		seen = append(seen, presence.Sighting[string, string]{Session: x.id, Process: x.process, Over: x.expired()})
		next = min(next, max(x.ttl/2, shortRound))
		if x.expired() {
			expired = append(expired, x.id)
		} else {
			next = min(next, max(x.left+justAfter, min(x.ttl/4, calm), shortRound))
		}
	}
	s.own.Lost(seen.Missing(before)...)
	s.expire(ctx, expired)
	ring = seen.Successors(s.cfg.Handle, neighbours)
	if len(ring) > 1 && !seen.In(s.cfg.Handle) {
		ring = nil // without a session it watches only a process that has no other neighbour
	}
	return next, ring
}

// expire ends sessions that expired. Other processes do the same, so each takes few at a time, in an order
// of its own: they must not wait for each other, or keep renewals waiting.
func (s *Store) expire(ctx context.Context, ids []string) {
	s.own.Lost(ids...)
	mrand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for few := range slices.Chunk(ids, expireAtOnce) {
		if err := s.endSessions(ctx, few, " AND expires <= "+s.d.Now()); err != nil && s.ctx.Err() == nil {
			s.log.Warn("can't end expired sessions yet", "sessions", len(few), "error", err)
		}
		if ctx.Err() != nil {
			return // the next round goes on
		}
	}
}

// await ends the sessions of a process once it has died.
func (s *Store) await(ctx context.Context, handle string) {
	warned := false
	for ctx.Err() == nil {
		err := s.cfg.Signals.Await(ctx, handle)
		if err == nil {
			err = s.gate.Pass(ctx)
		}
		switch {
		case err == nil:
			s.endSessionsOf(ctx, handle)
			return
		case ctx.Err() != nil:
			return
		case !errors.Is(err, ErrNoPresence) && !warned:
			warned = true
			s.log.Warn("can't watch a process; its sessions end with their TTL", "error", err)
		}
		_ = pause(ctx, rewatch)
	}
}

// endSessionsOf ends the sessions of a dead process; after a failure they end with their TTL.
func (s *Store) endSessionsOf(watching context.Context, handle string) {
	ctx, cancel := context.WithTimeout(watching, patience)
	defer cancel()
	ids, err := Column[string](ctx, s.cfg.Reads, s.d.bind("SELECT id FROM ringfence_sessions WHERE process = %s", 1), handle)
	if err == nil && len(ids) > 0 {
		err = s.endSessions(ctx, ids, "")
	}
	if err != nil && watching.Err() == nil {
		s.log.Warn("can't end the sessions of a dead process; they end with their TTL", "sessions", len(ids), "error", err)
	}
}

// sweep ends the sessions of dead processes and those that expired. The dead come first: after a restart of
// the host their sessions may seem to expire too late.
func (s *Store) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	processes, err := Column[string](ctx, s.cfg.Reads, "SELECT DISTINCT process FROM ringfence_sessions WHERE expires > "+s.d.Now())
	if err != nil {
		return s.wrap(ctx, "read sessions", err)
	}
	for _, handle := range processes {
		dead, err := s.cfg.Signals.Gone(ctx, handle)
		if err != nil {
			s.log.Warn("can't tell whether a process lives; its sessions end with their TTL", "error", err)
		}
		if dead {
			s.endSessionsOf(ctx, handle)
		}
	}
	all, err := s.sessions(ctx)
	if err != nil {
		return s.wrap(ctx, "read sessions", err)
	}
	var expired []string
	for _, x := range all {
		if x.expired() {
			expired = append(expired, x.id)
		}
	}
	s.expire(ctx, expired)
	return nil
}

// announce makes the death of this process noticeable, once.
func (s *Store) announce(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.presence.Load() != nil {
		return nil
	}
	p, err := s.cfg.Signals.Announce(ctx)
	if err != nil {
		return err
	}
	s.presence.Store(&p)
	return nil
}

func (s *Store) keepPresence(ctx context.Context) {
	p := s.presence.Load()
	if p == nil {
		return
	}
	age := s.link.Age()
	err := (*p).Keep(ctx, func() {
		s.link.Lost()
		age = s.link.Age()
	})
	if err == nil {
		s.link.Restored(age)
	} else if s.ctx.Err() == nil {
		s.log.Warn("can't show other processes that this one lives; its sessions rely on their TTL", "error", err)
	}
}

// sighting is one session as the database has it.
type sighting struct {
	id, process string
	ttl, left   time.Duration
}

func (x sighting) expired() bool { return x.left <= 0 }

// sessions reads all sessions, those that expire first in front. It ends the ones that expire later than
// any TTL allows, because the clock of the store was set back, and leaves them out.
func (s *Store) sessions(ctx context.Context) (all []sighting, err error) {
	var ahead []string
	err = each(ctx, s.cfg.Reads, func(scan func(...any) error) error {
		var x sighting
		var ttl, left int64
		if err := scan(&x.id, &x.process, &ttl, &left); err != nil {
			return err
		}
		if left > driver.MaxSessionTTL.Microseconds() {
			ahead = append(ahead, x.id)
			return nil
		}
		x.ttl, x.left = time.Duration(ttl)*time.Microsecond, time.Duration(left)*time.Microsecond
		all = append(all, x)
		return nil
	}, "SELECT id, process, ttl, expires - "+s.d.Now()+" FROM ringfence_sessions ORDER BY 4")
	if err == nil && len(ahead) > 0 {
		failed := s.endSessions(ctx, ahead, "")
		s.log.Warn("ending sessions that would live longer than any may: the clock of the store was set back", "sessions", len(ahead), "first", ahead[0], "error", failed)
		if failed == nil {
			poke(s.ring)
		}
	}
	return all, err
}
