package filelog

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// All callers whose frames are to be durable wait for one sync, of whichever process. There is no
// queue for it: the caller that finds the sync lock free leads, for all that is written by then, and marks in
// the page how far it came; the others sleep on the page's bell, look there when it rings, and one
// of them leads the next. There is one sync at a time, except when a leader is silent for too long:
// it may have been stopped, and then others sync without it.
//
// A sync covers what was written when it began. Should one fail meanwhile, in whichever process, it
// does not count any more (page.Lead): the kernel tells of an error once.

const (
	// syncNap is how long a committer waits for the sync leader's wake-up before it looks again.
	syncNap = 2 * time.Millisecond
	// leaderPatience is how long a silent sync leader is waited for. It may have been stopped; a
	// second fdatasync at the same time is harmless.
	leaderPatience = 50 * time.Millisecond
)

// awaitSync returns when all below end is on stable storage, synced by this process or by
// another one. Its error is fault.Unknown.
func (s *store) awaitSync(end segment.Pos) error {
	var since time.Time
	for {
		bell := s.page.Bell()
		if done, err := s.outcome(end); done {
			return err
		}
		won, err := s.syncLock.TryLock(true)
		if err != nil {
			return fmt.Errorf("topic %q: take the sync lock: %w: %w", s.name, fault.Unknown, err)
		}
		if won || !since.IsZero() && time.Since(since) > leaderPatience {
			err := s.leadFor(end, won)
			if won {
				s.syncLock.Unlock()
				s.ring() // again: a caller that looked while the lock was held found it taken
			}
			if err != nil && !s.mayWait(err) {
				return unknown(err)
			}
			since = time.Time{}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		s.page.Nap(bell, syncNap)
	}
}

// mayWait tells whether a sync failed only because the write lock was not had in time. The caller
// waits on, but lets others lead meanwhile.
func (s *store) mayWait(err error) bool {
	select {
	case <-s.over:
		return false
	default:
		return errors.Is(err, errNotLetGo)
	}
}

// unknown adds to the error of a sync what it means for its waiters.
func unknown(err error) error {
	if errors.Is(err, fault.Unknown) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.Unknown, err)
}

// leadAlone makes all that is written durable. The caller has the write lock.
func (s *store) leadAlone() error {
	if s.page.Synced() == s.page.Written() {
		return nil
	}
	return s.flush()
}

// flush makes all that was written to the newest segment durable, also what is no part of the log: with the
// sync lock if that can be had in time, else without it. A leader whose sync is slow must not make the outcome
// of others unknown. The caller has the write lock.
func (s *store) flush() error {
	won, err := s.takeSyncLock()
	if err != nil {
		return err
	}
	err = s.lead(locks{write: true, sync: won})
	if won {
		err = errors.Join(err, s.syncLock.Unlock())
	}
	return err
}

// takeSyncLock waits for the sync lock, but not for ever.
func (s *store) takeSyncLock() (won bool, err error) {
	switch err := lockFor(leaderPatience, s.syncLock); {
	case errors.Is(err, errNotLetGo):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("topic %q: take the sync lock: %w", s.name, err)
	}
	return true, nil
}

// leadFor syncs unless the leader before did.
func (s *store) leadFor(end segment.Pos, won bool) error {
	if done, _ := s.outcome(end); done {
		return nil
	}
	return s.lead(locks{sync: won})
}

// outcome tells whether the outcome of what is below end is known: nil when it is on stable
// storage, fault.Unknown when a sync failed.
func (s *store) outcome(end segment.Pos) (bool, error) {
	switch s.page.FateOf(end) {
	case page.Waiting:
		return false, nil
	case page.Durable:
		return true, nil
	case page.Unknown:
		return true, s.broken(end.Number())
	}
	return true, s.kept(end)
}

// kept is nil when the segment was not cut below end, as the header of the next one says. Its error is
// fault.Unknown.
func (s *store) kept(end segment.Pos) error {
	h, err := s.headerOf(end.Number() + 1)
	if err != nil {
		return fmt.Errorf("topic %q: read the segment after %d: %w: %w", s.name, end.Number(), fault.Unknown, err)
	}
	if h.PrevEnd < end.Off() {
		return fmt.Errorf("topic %q: segment %d was cut at %d after a sync error: %w", s.name, end.Number(), h.PrevEnd, fault.Unknown)
	}
	return nil
}

// lead makes all that is written durable and publishes it. Only a failed sync or write breaks a segment: one
// that this process can't open is as sound as before.
func (s *store) lead(have locks) error {
	err := s.page.Lead(&syncer{s, have.write}, have.sync)
	if errors.Is(err, page.ErrBroken) {
		return s.broken(s.page.Written().Number())
	}
	if err == nil {
		s.ring()
	}
	return err
}

// locks are the kernel locks that a caller of lead has.
type locks struct{ write, sync bool }

// syncer does for the page what it can't do itself.
type syncer struct {
	s      *store
	locked bool // the caller has the write lock
}

// Sync is page.Disk. What is not open here can't have heard of anything.
func (d *syncer) Sync(n uint64, from segment.Pos) (proof bool, err error) {
	g := d.s.segs.take(n, nil)
	if g == nil {
		return false, nil
	}
	defer d.s.segs.put(g) // after the broken: a fresh descriptor would not be told of the error
	proof, err = g.sync(from)
	if err != nil {
		return true, d.s.failSync(n, err)
	}
	return proof, nil
}

// Again is page.Disk.
func (d *syncer) Again(n uint64, from, to segment.Pos) error {
	return d.s.rewrite(n, from, to, d.locked)
}

func (s *store) broken(n uint64) error {
	return fmt.Errorf("topic %q: segment %d had a write or sync error: %w", s.name, n, fault.Unknown)
}

func (s *store) failSync(n uint64, err error) error {
	if s.gone() {
		return notFound(s.name)
	}
	s.breakSegment(n, err)
	return fmt.Errorf("topic %q: fdatasync of segment %d: %w: %w", s.name, n, fault.Unknown, err)
}

// breakSegment ends all waiting for a segment and writing to it.
func (s *store) breakSegment(n uint64, err error) {
	s.page.Fail(n)
	s.ring()
	s.log.Error("write or sync error; what waits for it has an unknown outcome", "segment", n, "error", err)
}

// ring wakes all waiters for news of this topic, here and in other processes.
func (s *store) ring() {
	s.watch.ring()
	s.view.news()
}
