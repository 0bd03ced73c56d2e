package filelog

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

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
		bell := s.page.half(pageBell).Load()
		if done, err := s.settled(end); done {
			return err
		}
		won, err := s.syncLock.TryLock(true)
		if err != nil {
			return fmt.Errorf("topic %q: take the sync lock: %w: %w", s.name, fault.Unknown, err)
		}
		if won || !since.IsZero() && time.Since(since) > leaderPatience {
			err := s.leadFor(end)
			if won {
				s.syncLock.Unlock()
				s.ring() // again: whoever looked while the lock was held found it taken
			}
			if err != nil {
				return err
			}
			since = time.Time{}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		s.page.half(pageWaiters).Add(1)
		futexWait(&s.page.b[pageBell], bell, syncNap)
		s.page.half(pageWaiters).Add(^uint32(0))
	}
}

// leadAlone is lead with the sync lock, if that can be had in time.
func (s *store) leadAlone() error {
	for start := time.Now(); time.Since(start) < leaderPatience; {
		bell := s.page.half(pageBell).Load()
		won, err := s.syncLock.TryLock(true)
		if err != nil {
			return fmt.Errorf("topic %q: take the sync lock: %w", s.name, err)
		}
		if won {
			return errors.Join(s.lead(), s.syncLock.Unlock())
		}
		s.page.half(pageWaiters).Add(1)
		futexWait(&s.page.b[pageBell], bell, syncNap)
		s.page.half(pageWaiters).Add(^uint32(0))
	}
	return s.lead()
}

// leadFor syncs unless the leader before did.
func (s *store) leadFor(end segment.Pos) error {
	if done, _ := s.settled(end); done {
		return nil
	}
	return s.lead()
}

// settled tells whether the fate of what is below end is known: nil when it is on stable
// storage, fault.Unknown when a sync failed.
func (s *store) settled(end segment.Pos) (bool, error) {
	synced := s.page.synced()
	switch {
	case synced >= end && synced.Number() == end.Number():
		return true, nil
	case s.page.poison() == end.Number():
		return true, fmt.Errorf("topic %q: an fdatasync of segment %d failed: %w", s.name, end.Number(), fault.Unknown)
	case synced < end:
		return false, nil
	case s.page.poison() < end.Number():
		return true, nil // it was never cut; the segment after it may be trimmed already
	}
	// The log went on in another segment. It tells where end's segment was cut.
	h, err := s.headerOf(end.Number() + 1)
	if err != nil {
		return true, fmt.Errorf("topic %q: read the segment after %d: %w: %w", s.name, end.Number(), fault.Unknown, err)
	}
	if h.PrevEnd < end.Off() {
		return true, fmt.Errorf("topic %q: segment %d was cut at %d after a sync error: %w", s.name, end.Number(), h.PrevEnd, fault.Unknown)
	}
	return true, nil
}

// lead makes all that is written durable and publishes it. A failed sync poisons its segment.
func (s *store) lead() error {
	written := s.page.written()
	for n := max(s.page.synced().Number(), s.page.low()); n <= written.Number(); n++ {
		if n == s.page.poison() {
			if n == written.Number() {
				return fmt.Errorf("topic %q: segment %d had a sync error: %w", s.name, n, fault.Unknown)
			}
			continue // never sync on it again
		}
		if err := s.syncSegment(n); err != nil {
			s.poisonSegment(n, err)
			return fmt.Errorf("topic %q: fdatasync of segment %d: %w: %w", s.name, n, fault.Unknown, err)
		}
	}
	if !s.page.setSynced(written) {
		return fmt.Errorf("topic %q: segment %d had a sync error: %w", s.name, written.Number(), fault.Unknown)
	}
	s.ring()
	return nil
}

func (s *store) syncSegment(n uint64) error {
	g, err := s.segs.get(n)
	if err != nil {
		return err
	}
	defer s.segs.put(g)
	return g.f.SyncData()
}

// poisonSegment makes everybody stop waiting for a segment and writing to it.
func (s *store) poisonSegment(n uint64, err error) {
	s.page.freeze(n, s.syncing())
	s.page.raise(pagePoison, n)
	s.ring()
	s.log.Error("write or sync error; what waits for it has an unknown outcome", "segment", n, "error", err)
}

// ring wakes everybody who waits for news of this topic, here and in other processes.
func (s *store) ring() {
	s.watch.ring()
	s.view.news()
}
