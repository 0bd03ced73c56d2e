package group_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// gap is the longest time between two records of a unit after began.
func (c *cluster) gap(unit int, began time.Time) (longest time.Duration) {
	of := c.of(unit)
	for i := 1; i < len(of); i++ {
		if of[i].at.After(began) {
			longest = max(longest, of[i].at.Sub(of[i-1].at))
		}
	}
	return longest
}

// With a store that takes 1 ms for each call, what a unit pauses is the number of calls in its way.
func TestPausesAreAFewRoundTrips(t *testing.T) {
	const call = time.Millisecond
	slow := func(p *proc) { p.h.SetLatency(call) }
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a", slow), c.start("b", slow)
		pass(time.Second)

		began := time.Now()
		d := c.start("d", slow)
		pass(time.Second)
		c.shared(a, b, d)
		stayed := append(a.owns(), b.owns()...)
		for _, u := range d.owns() {
			// the handoff, and the reading of the new owner: the owners and the checkpoints
			if got := c.gap(u, began); got > pace+4*call {
				t.Errorf("unit %d moved to d and paused for %s; want at most 4 calls", u, got-pace)
			}
		}
		for _, u := range stayed {
			if got := c.gap(u, began); got > pace {
				t.Errorf("unit %d did not move but paused for %s", u, got-pace)
			}
		}

		began = time.Now()
		lost := d.owns()
		d.kill()
		pass(time.Second)
		for _, u := range lost {
			// a reading, which may have to wait for one under way, the claim, and the record's own time
			if got := c.gap(u, began); got > 2*pace+5*call {
				t.Errorf("unit %d was taken over after %s; want at most 5 calls", u, got-2*pace)
			}
		}
		for _, u := range stayed {
			if got := c.gap(u, began); got > pace {
				t.Errorf("unit %d did not move but paused for %s", u, got-pace)
			}
		}
	})
}

func TestRunLeavesNoGoroutineBehind(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	store := memregistry.NewStore()
	h := store.Open()
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{}, 64)
	worker := group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
		started <- struct{}{}
		select {
		case <-ctx.Done():
		case <-u.Draining():
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { // joined below
		done <- group.Run(ctx, group.Config{Registry: h.Registry, Group: "g", Topic: "t", Units: 4, Member: "a"}, worker)
	}()
	for range 4 {
		<-started
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the member left with %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, leaks)
}

func TestWorkerThatPanicsIsStartedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := memregistry.NewStore().Open()
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		starts := 0
		cfg := group.Config{Registry: h.Registry, Group: "g", Topic: "t", Units: 1, Member: "a"}
		var told error
		cfg.Events.Trouble = func(_ int, _ string, err error) { told = err }
		err := group.Run(ctx, cfg, group.WorkerFunc(func(ctx context.Context, u *group.Unit) error {
			if starts++; starts < 3 {
				panic("oh")
			}
			cancel()
			<-u.Draining()
			return nil
		}))
		if err != nil || starts != 3 || told == nil || !contains(told.Error(), "panicked: oh") {
			t.Errorf("Run gave %v after %d starts, and told %v; want 3 starts and the panic told", err, starts, told)
		}
	})
}
