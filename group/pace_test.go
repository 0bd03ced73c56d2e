package group_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// A group to which nothing comes is asked for its progress once a second, later every five, and from the first
// progress on in the commit interval again.
func TestProgressAfterARestIsStoredAsSoonAsAnyOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval = 50 * time.Millisecond
		h := memregistry.NewStore().Open()
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var next, asked atomic.Int64
		var unit atomic.Pointer[group.Unit]
		cfg := group.Config{Registry: h.Registry, Group: "g", Topic: "t", Units: 1, Member: "a", CommitInterval: interval}
		done := make(chan error, 1)
		go func() {
			done <- group.Run(ctx, cfg, group.WorkerFunc(func(_ context.Context, u *group.Unit) error {
				u.Track(func() group.Progress {
					asked.Add(1)
					return group.Progress{Positions: []protocol.Position{{Next: next.Load()}}}
				})
				unit.Store(u)
				<-u.Draining()
				return nil
			}))
		}()
		g, err := protocol.NewGroup(h.Registry, "g")
		must(t, err)
		stored := func() int64 {
			u, err := g.Unit(t.Context(), 0)
			if err != nil || u.Checkpoint == nil {
				t.Fatal(u, err)
			}
			return u.Checkpoint.Positions[0].Next
		}
		for round := int64(1); round <= 3; round++ {
			time.Sleep(2 * time.Second) // it goes to rest
			before := asked.Load()
			time.Sleep(8 * time.Second)
			if n := asked.Load() - before; n < 7 || n > 9 {
				t.Errorf("asked %d times in 8 s without progress; want once a second", n)
			}
			time.Sleep(10 * time.Second) // to a long one
			before = asked.Load()
			time.Sleep(20 * time.Second)
			if n := asked.Load() - before; n < 3 || n > 5 {
				t.Errorf("asked %d times in 20 s after a while without progress; want every five seconds", n)
			}
			for step := range int64(20) {
				want := 1000*round + step
				next.Store(want)
				unit.Load().Advanced()
				time.Sleep(interval + time.Millisecond)
				synctest.Wait()
				if got := stored(); got != want {
					t.Errorf("round %d: %d is stored %s after %d was reached", round, got, interval, want)
				}
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A handler that runs is no rest, so that the watchdog sees it in time.
func TestNobodyRestsWhileAHandlerRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := memregistry.NewStore().Open()
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int64
		began := time.Now()
		cfg := group.Config{Registry: h.Registry, Group: "g", Topic: "t", Units: 1, Member: "a", CommitInterval: 50 * time.Millisecond}
		done := make(chan error, 1)
		go func() {
			done <- group.Run(ctx, cfg, group.WorkerFunc(func(_ context.Context, u *group.Unit) error {
				u.Track(func() group.Progress {
					asked.Add(1)
					return group.Progress{Oldest: began}
				})
				<-u.Draining()
				return nil
			}))
		}()
		time.Sleep(10 * time.Second)
		if n := asked.Load(); n < 190 {
			t.Errorf("asked %d times in 10 s; want about 200", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
