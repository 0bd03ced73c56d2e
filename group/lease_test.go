package group_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// shaky is a registry that is slow to list, and whose sessions can be doubtful or end sooner.
type shaky struct {
	*registry.Registry
	delay  time.Duration // of a list
	lists  atomic.Int64
	sooner atomic.Int64 // by how much the deadline of the first session comes sooner: the host was suspended
	doubt  atomic.Bool
	opened atomic.Int64
	hang   bool // handlers take until they are cancelled
}

func (d *shaky) List(ctx context.Context, prefix string) (registry.Snapshot, error) {
	d.lists.Add(1)
	snap, err := d.Registry.List(ctx, prefix)
	time.Sleep(d.delay)
	return snap, err
}

func (d *shaky) OpenSession(ctx context.Context, ttl time.Duration) (registry.Session, error) {
	s, err := d.Registry.OpenSession(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &shakySession{Session: s, d: d, first: d.opened.Add(1) == 1}, nil
}

type shakySession struct {
	registry.Session
	d     *shaky
	first bool
}

func (s *shakySession) Doubtful() bool { return s.d.doubt.Load() }

func (s *shakySession) Deadline() time.Time {
	end := s.Session.Deadline()
	if s.first {
		end = end.Add(-time.Duration(s.d.sooner.Load()))
	}
	return end
}

// busyMember runs a member of 4 units, each of which handles a record every 10 ms, until the test's
// function returns; handled counts.
func busyMember(t *testing.T, d *shaky, f func(handled, running *atomic.Int64)) {
	store := memregistry.NewStore()
	h := store.Open()
	d.Registry = h.Registry
	var handled, running atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	cfg := group.Config{Registry: registry.New(d), Group: "g", Topic: "t", Units: 4, Member: "a", SessionTTL: 6 * time.Second}
	go func() {
		end <- group.Run(ctx, cfg, group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
			running.Add(1)
			defer running.Add(-1)
			var next atomic.Int64
			u.Track(func() group.Progress {
				return group.Progress{Positions: []protocol.Position{{Next: next.Load()}}, Oldest: time.Now()}
			})
			for {
				if err := u.Await(ctx); err != nil {
					return err
				}
				handled.Add(1)
				if d.hang {
					<-ctx.Done()
					return ctx.Err()
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-u.Draining():
					return nil
				case <-time.After(10 * time.Millisecond):
					next.Add(1)
					u.Advanced()
				}
			}
		}))
	}()
	f(&handled, &running)
	cancel()
	if err := <-end; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// A commit that is answered while the group is read is no reason to read it again: with a slow store
// there is always one.
func TestAMemberAtWorkDoesNotReadTheGroupAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := &shaky{delay: delay}
			busyMember(t, d, func(handled, _ *atomic.Int64) {
				time.Sleep(10 * time.Second)
				lists, work := d.lists.Load(), handled.Load()
				time.Sleep(25 * time.Second)
				if lists = d.lists.Load() - lists; lists > 4 { // a sweep, of two lists
					t.Errorf("a list takes %s: %d lists in 25 quiet seconds", delay, lists)
				}
				if handled.Load() == work {
					t.Error("it did nothing meanwhile")
				}
			})
		})
	}
}

func TestHandlersDoNotOutliveALeaseThatEndedWhileTheHostWasSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &shaky{hang: true}
		busyMember(t, d, func(_, running *atomic.Int64) {
			time.Sleep(10 * time.Second)
			if running.Load() != 4 {
				t.Fatalf("%d units run, want 4", running.Load())
			}
			d.sooner.Store(int64(time.Hour))
			time.Sleep(time.Second) // several times the commit interval, and less than until the next renewal
			if d.opened.Load() < 2 {
				t.Errorf("the units are still run in a session that ended an hour ago")
			}
		})
	})
}

func TestNoHandlerStartsWhileTheSessionIsInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &shaky{}
		busyMember(t, d, func(handled, _ *atomic.Int64) {
			time.Sleep(10 * time.Second)
			d.doubt.Store(true)
			before := handled.Load()
			time.Sleep(time.Second)
			if n := handled.Load() - before; n != 0 {
				t.Errorf("%d handlers were started", n)
			}
			d.doubt.Store(false)
			time.Sleep(time.Second)
			if handled.Load() == before {
				t.Error("none is started after the doubt")
			}
		})
	})
}
