package group_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// process is a member of several groups in one process, which share a session.
type process struct {
	h        *memregistry.Handle
	sessions *protocol.Sessions
	runs     map[string]*atomic.Int64 // workers that run, by group
	paused   atomic.Int64             // times that a session was lost
	stops    map[string]func() error
}

func newProcess(t *testing.T, store *memregistry.Store, groups int) *process {
	t.Helper()
	p := &process{h: store.Open(), runs: map[string]*atomic.Int64{}, stops: map[string]func() error{}}
	p.sessions = protocol.NewSessions(p.h.Registry)
	for i := range groups {
		name := fmt.Sprint("g", i)
		n := &atomic.Int64{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		cfg := group.Config{
			Registry: p.h.Registry, Sessions: p.sessions, Group: name, Topic: "t", Units: 2, Member: fmt.Sprintf("m%p", p),
			Events: group.Events{Paused: func(string) { p.paused.Add(1) }},
		}
		go func() { // joined by its stop
			done <- group.Run(ctx, cfg, group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
				n.Add(1)
				defer n.Add(-1)
				select {
				case <-u.Draining():
				case <-ctx.Done():
				}
				return nil
			}))
		}()
		p.runs[name] = n
		p.stops[name] = func() error { cancel(); return <-done }
	}
	return p
}

func (p *process) stopAll(t *testing.T) {
	t.Helper()
	for name, stop := range p.stops {
		if err := stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = p.h.Close()
}

// all is how many workers run in it.
func (p *process) all() (n int64) {
	for _, r := range p.runs {
		n += r.Load()
	}
	return n
}

// sessionsIn counts the sessions under which members are in groups.
func sessionsIn(t *testing.T, reg *registry.Registry) int {
	t.Helper()
	snap, err := reg.List(t.Context(), "groups/")
	must(t, err)
	ids := map[string]bool{}
	for _, e := range snap.Entries {
		if e.Session != "" {
			ids[e.Session] = true
		}
	}
	return len(ids)
}

func TestMembersOfAProcessShareASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		p := newProcess(t, store, 10)
		defer p.stopAll(t)
		time.Sleep(5 * time.Second)
		if n := sessionsIn(t, p.h.Registry); n != 1 || p.all() != 20 {
			t.Fatalf("%d sessions, %d of 20 units run; want one session", n, p.all())
		}
		// One leaves: its units go to another process at once, and nobody else notices.
		q := newProcess(t, store, 1)
		defer q.stopAll(t)
		time.Sleep(5 * time.Second)
		must(t, p.stops["g0"]())
		p.stops["g0"] = func() error { return nil }
		time.Sleep(200 * time.Millisecond)
		if q.all() != 2 || p.all() != 18 || p.paused.Load() != 0 {
			t.Errorf("after one left, the other process runs %d of its units, this one %d of the other groups', and %d sessions were lost; want 2, 18, 0", q.all(), p.all(), p.paused.Load())
		}
	})
}

// The session is lost: the units of all groups stop, others take them over, and all come back under one session.
func TestASharedSessionThatIsLostStopsAllGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		p := newProcess(t, store, 10)
		defer p.stopAll(t)
		time.Sleep(5 * time.Second)
		q := newProcess(t, store, 10)
		defer q.stopAll(t)
		time.Sleep(5 * time.Second)
		if p.all() != 10 || q.all() != 10 {
			t.Fatalf("%d and %d units run; want 10 each", p.all(), q.all())
		}
		p.h.SetOutage(true)
		time.Sleep(5 * time.Second)
		if p.all() != 0 || p.paused.Load() != 10 {
			t.Errorf("%d units run without a session, %d groups were paused; want 0 and 10", p.all(), p.paused.Load())
		}
		time.Sleep(5 * time.Second)
		if q.all() != 20 {
			t.Errorf("the other process runs %d units; want all 20", q.all())
		}
		p.h.SetOutage(false)
		time.Sleep(10 * time.Second)
		if n := sessionsIn(t, q.h.Registry); n != 2 || p.all() != 10 || q.all() != 10 {
			t.Errorf("after the outage %d sessions, %d and %d units; want 2, 10 and 10", n, p.all(), q.all())
		}
	})
}

// One group finds out first that the session has ended, by a write that the store refuses. No other goes on with it.
func TestASessionThatOneGroupLosesIsLostForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memregistry.NewStore(), 3)
		defer p.stopAll(t)
		time.Sleep(5 * time.Second)
		s, err := p.sessions.Open(t.Context(), p.h.SessionTTL())
		must(t, err)
		was := s.ID()
		s.Lose()
		must(t, s.Close(t.Context()))
		time.Sleep(10 * time.Second)
		if p.paused.Load() != 3 || p.all() != 6 || sessionsIn(t, p.h.Registry) != 1 {
			t.Errorf("%d groups were paused, %d units run, under %d sessions; want 3, 6, 1", p.paused.Load(), p.all(), sessionsIn(t, p.h.Registry))
		}
		if s, err = p.sessions.Open(t.Context(), p.h.SessionTTL()); err != nil || s.ID() == was {
			t.Errorf("%v; the session is the one that was lost: %v", err, s.ID() == was)
		}
		_ = s.Close(t.Context()) // others have it
	})
}

// A group that is deleted under its members takes its own along, and no other group of their processes.
func TestAGroupThatIsDestroyedInterruptsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		p := newProcess(t, store, 3)
		defer p.stopAll(t)
		time.Sleep(5 * time.Second)
		g, err := protocol.NewGroup(p.h.Registry, "g0")
		must(t, err)
		must(t, g.Destroy(t.Context()))
		time.Sleep(5 * time.Second)
		if p.runs["g0"].Load() != 0 || p.all() != 4 || p.paused.Load() != 0 {
			t.Errorf("%d units of the deleted group run, %d in all, and %d groups lost their session; expected 0, 4, 0", p.runs["g0"].Load(), p.all(), p.paused.Load())
		}
		if err := p.stops["g0"](); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("the member of the deleted group ended with %v; expected ErrNotFound", err)
		}
		p.stops["g0"] = func() error { return nil }
	})
}

// A session that is lost is let go of by all groups while they run on under another one: it ends in the store, and
// does not live as long as the process.
func TestALostSessionEndsWhileItsGroupsRunOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memregistry.NewStore(), 3)
		defer p.stopAll(t)
		time.Sleep(5 * time.Second)
		s, err := p.sessions.Open(t.Context(), p.h.SessionTTL())
		must(t, err)
		_, err = p.h.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "witness", Session: s.ID()}}})
		must(t, err)
		s.Lose()
		must(t, s.Close(t.Context()))
		time.Sleep(10 * time.Second)
		if _, err := p.h.Get(t.Context(), "witness"); !errors.Is(err, registry.ErrNotFound) || p.all() != 6 {
			t.Errorf("%d of 6 units run, and what was put under the session that was lost: %v; expected that it went with it", p.all(), err)
		}
	})
}
