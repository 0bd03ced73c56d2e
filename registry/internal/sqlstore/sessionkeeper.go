package sqlstore

import (
	"context"
	"errors"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/internal/presence"
)

// Processes watch each other: each waits for the death of the next ones in the ring of those that have
// sessions, by what Signals offers (a named lock in MariaDB, a FIFO beside SQLite). So a death is noticed at
// once, by few, and its sessions are ended for all. The rest is left to time: in rounds each process ends
// what has run out by the clock of the store, and finds among its own what others have ended.

const (
	neighbours   = 2 // how many processes this one watches
	expireAtOnce = 8 // sessions
	shortRound   = 100 * time.Millisecond
	longRound    = 3 * time.Second
	justAfter    = 5 * time.Millisecond   // a session has run out
	calm         = 500 * time.Millisecond // between two looks, however many sessions are about to run out
	rewatch      = 500 * time.Millisecond // until a process that can't be watched is tried again
)

// keepSessions ends the sessions that ran out and those of processes that died, and keeps this one's
// presence. Each process watches its neighbours in the ring of those with sessions.
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

// round looks at all sessions once, and says when to look again and whom to watch.
func (s *Store) round() (next time.Duration, ring []string) {
	if s.gate.Pass(s.ctx) != nil {
		return shortRound, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	s.keepPresence(ctx)
	before := s.ownIDs()
	all, odd, err := s.sessions(ctx)
	if err != nil {
		return time.Second, nil // the listener tells of it
	}
	s.endOdd(ctx, odd)
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
	crowd := s.crowded(all)
	if !crowd { // else they may be there all the same, and their renewals tell
		s.lost(seen.Missing(before))
	}
	if len(expired) > 0 {
		s.expire(ctx, expired)
	}
	ring = seen.Successors(s.cfg.Handle, neighbours)
	if len(ring) > 1 && !crowd && !seen.In(s.cfg.Handle) {
		ring = nil // without a session it watches only a process that nobody else would
	}
	return next, ring
}

func (s *Store) ownIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.own))
}

// lost ends here what has ended in the database.
func (s *Store) lost(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if x := s.own[id]; x != nil {
			x.Lost()
		}
	}
}

// expire ends sessions that ran out. Others are at it too: each takes few at a time, in an order of
// its own, so that they do not wait for each other and keep renewals waiting.
func (s *Store) expire(ctx context.Context, ids []string) {
	s.lost(ids)
	mrand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for few := range slices.Chunk(ids, expireAtOnce) {
		if err := s.endWhere(ctx, few, " AND expires <= "+s.d.Now()); err != nil && s.ctx.Err() == nil {
			s.log.Warn("sessions that ran out can't be ended yet", "sessions", len(few), "error", err)
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
			s.log.Warn("a process can't be watched; the TTL of its sessions has to do", "error", err)
		}
		_ = pause(ctx, rewatch)
	}
}

// endSessionsOf ends the sessions of a dead process; what fails is left to the TTL.
func (s *Store) endSessionsOf(watching context.Context, handle string) {
	ctx, cancel := context.WithTimeout(watching, patience)
	defer cancel()
	ids, err := Column[string](ctx, s.cfg.Reads, s.d.bind("SELECT id FROM ringfence_sessions WHERE process = %s AND "+s.named(), 1), handle)
	if err == nil && len(ids) > 0 {
		err = s.endSessions(ctx, ids)
	}
	if err != nil && watching.Err() == nil {
		s.log.Warn("the sessions of a dead process can't be ended; they run out", "sessions", len(ids), "error", err)
	}
}

// sweep ends what nobody watched: the sessions of dead processes, those that ran out, and what none
// of ours wrote. The dead come first: what they left may look as if nobody could have written it, on
// a host that was started anew.
func (s *Store) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	processes, err := Column[string](ctx, s.cfg.Reads, "SELECT DISTINCT process FROM ringfence_sessions WHERE expires > "+s.d.Now()+" AND "+s.named())
	if err != nil {
		return s.wrap(ctx, "read sessions", err)
	}
	for _, handle := range processes {
		dead, err := s.cfg.Signals.Gone(ctx, handle)
		if err != nil {
			s.log.Warn("whether a process is alive can't be told; the TTL of its sessions has to do", "error", err)
		}
		if dead {
			s.endSessionsOf(ctx, handle)
		}
	}
	all, odd, err := s.sessions(ctx)
	if err != nil {
		return s.wrap(ctx, "read sessions", err)
	}
	s.endOdd(ctx, odd)
	var expired []string
	for _, x := range all {
		if x.expired() {
			expired = append(expired, x.id)
		}
	}
	if len(expired) > 0 {
		s.expire(ctx, expired)
	}
	return nil
}

// ownPresence is what others see of this process; nil before the first session.
type ownPresence struct {
	mu sync.Mutex
	p  Presence
}

// announce makes this process's death noticeable, once.
func (s *Store) announce(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.presence.get() != nil {
		return nil
	}
	p, err := s.cfg.Signals.Announce(ctx)
	if err != nil {
		return err
	}
	s.presence.set(p)
	return nil
}

func (p *ownPresence) get() Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p
}

func (p *ownPresence) set(q Presence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p = q
}

func (s *Store) keepPresence(ctx context.Context) {
	p := s.presence.get()
	if p == nil {
		return
	}
	age := s.link.Age()
	err := p.Keep(ctx, func() {
		s.link.Lost()
		age = s.link.Age()
	})
	if err == nil {
		s.link.Restored(age)
	} else if s.ctx.Err() == nil {
		s.log.Warn("others can't see whether this process lives; the TTL of its sessions has to do", "error", err)
	}
}
