package shard

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// A parked record that is delivered before all go on uses what the rate allows as any other attempt does.
func TestWhatIsParkedIsWithinTheRateToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, span = 10, 30 * time.Second
		var parked atomic.Int64 // that were delivered
		g := newGreedy(t, 0)
		defer g.end()
		s := begin(t, policy(time.Second, time.Minute, 0, 1), &Limiter{rate: g.rate}, func(context.Context, *dispatch.Record) error {
			parked.Add(1)
			return nil
		})
		s.delay(2*rate*int64(span/time.Second), time.Minute)
		g.set(rate)
		leave := g.join(s.Shard, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		e := &eager{g: g, may: make(chan bool, 64)} // has a backlog, too
		s.Uses(e)
		idle := make(chan struct{})
		go e.run(s.Shard, idle)
		parked.Store(0)
		g.since()
		time.Sleep(span)
		synctest.Wait()
		again, first := parked.Load(), g.since()
		about(t, "of what is parked, and of what is not", int(again)+first, rate*span.Seconds())
		if again == 0 || first == 0 {
			t.Errorf("%d attempts of what is parked, and %d others; want both to have their turns", again, first)
		}
		close(idle)
		leave()
	})
}

// A shard whose slots are taken is not given tokens that it can't use: others go without them, and all at once they
// would be more than the rate when a slot is free.
func TestWhatIsParkedSavesNoTokensUpWhileItHasNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, span = 10, 30 * time.Second
		var parked atomic.Int64
		g := newGreedy(t, 0)
		defer g.end()
		s := begin(t, policy(time.Second, time.Minute, 0, 1), &Limiter{rate: g.rate}, func(context.Context, *dispatch.Record) error {
			parked.Add(1)
			return nil
		})
		s.delay(rate*int64(span/time.Second), time.Minute)
		s.SetConcurrency(1)
		busy, _, err := s.slots.take(t.Context()) // by a handler that takes long
		if err != nil {
			t.Fatal(err)
		}
		g.set(rate)
		leave, disown := g.join(s.Shard, 0.5), g.own(0.5) // another shard has a backlog
		time.Sleep(time.Minute)
		synctest.Wait()
		g.since()
		time.Sleep(span)
		about(t, "of the other shard", g.since(), rate*span.Seconds())
		if n := parked.Load(); n != 0 {
			t.Errorf("%d attempts without a slot", n)
		}
		busy.release()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := int(parked.Load()) + g.since(); n > 10*rate+3 {
			t.Errorf("%d attempts in the ten seconds after; expected about %d", n, 10*rate)
		}
		disown()
		leave()
	})
}
