package shard

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

// A parked record that is delivered before all go on uses what the rate allows as any other attempt does.
func TestWhatIsParkedIsWithinTheRateToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		const rate, span = 10, 30 * time.Second
		var parked atomic.Int64 // that were delivered
		g := newGreedy(t, 0)
		defer g.end()
		s := New(Config{
			Name: "billing", Set: "k3m9q2xt", Retry: policy(time.Second, time.Minute, 0, 1),
			Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Epoch: 1, Logger: quiet(), Limits: &Limiter{rate: g.rate},
			Handler: func(context.Context, *dispatch.Record) error {
				parked.Add(1)
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		over, idle := make(chan error, 1), make(chan struct{})
		go func() { over <- s.Run(ctx) }() // joined below
		<-s.Started()
		at := time.Now().Add(time.Minute).UTC().AppendFormat(nil, time.RFC3339Nano)
		for offset := range 2 * rate * int64(span/time.Second) {
			r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: fmt.Append(nil, offset), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
			if err := s.Handle(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		g.set(rate)
		leave := g.join(s, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		e := &eager{g: g, may: make(chan bool, 64)} // has a backlog, too
		s.Uses(e)
		go e.run(s, idle)
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
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// A shard whose slots are taken is not given tokens that it can't use: others go without them, and all at once they
// would be more than the rate when a slot is free.
func TestWhatIsParkedSavesNoTokensUpWhileItHasNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		const rate, span = 10, 30 * time.Second
		var parked atomic.Int64
		g := newGreedy(t, 0)
		defer g.end()
		s := New(Config{
			Name: "billing", Set: "k3m9q2xt", Retry: policy(time.Second, time.Minute, 0, 1),
			Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Epoch: 1, Logger: quiet(), Limits: &Limiter{rate: g.rate},
			Handler: func(context.Context, *dispatch.Record) error {
				parked.Add(1)
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- s.Run(ctx) }() // joined below
		<-s.Started()
		at := time.Now().Add(time.Minute).UTC().AppendFormat(nil, time.RFC3339Nano)
		for offset := range rate * int64(span/time.Second) {
			r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: fmt.Append(nil, offset), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
			if err := s.Handle(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		s.SetConcurrency(1)
		busy, _, err := s.slots.take(ctx) // by a handler that takes long
		if err != nil {
			t.Fatal(err)
		}
		g.set(rate)
		leave, disown := g.join(s, 0.5), g.own(0.5) // another shard has a backlog
		time.Sleep(time.Minute)
		synctest.Wait()
		g.since()
		time.Sleep(span)
		about(t, "of the other shard", g.since(), rate*span.Seconds())
		if n := parked.Load(); n != 0 {
			t.Errorf("%d attempts without a slot", n)
		}
		busy.give()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := int(parked.Load()) + g.since(); n > 10*rate+3 {
			t.Errorf("%d attempts in the ten seconds after; expected about %d", n, 10*rate)
		}
		disown()
		leave()
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
