package shard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

func TestWhoWaitsForASlotGetsItInTurnAndABoundMayChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l slots
		free, _, err := l.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.bound(2)
		free.release() // it was begun without a bound, and took none
		order := make(chan int, 5)
		for i := range 5 {
			go func() {
				if taken, _, err := l.take(t.Context()); err == nil {
					order <- i
					time.Sleep(time.Duration(i+1) * time.Second)
					taken.release()
				}
			}()
			synctest.Wait()
		}
		if len(order) != 2 || l.atMost(8) != 2 {
			t.Errorf("%d are under way, of %d", len(order), l.atMost(8))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, waited, err := l.take(ctx); !waited || !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %t, %v", waited, err)
		}
		time.Sleep(1500 * time.Millisecond)
		if synctest.Wait(); len(order) != 3 {
			t.Errorf("%d after one has ended", len(order))
		}
		l.bound(0)
		if synctest.Wait(); len(order) != 5 || l.atMost(8) != 8 {
			t.Errorf("%d once there is no bound", len(order))
		}
		for i := range 3 {
			if got := <-order; got != i {
				t.Errorf("%d came in place %d", got, i)
			}
		}
		l.bound(1)
		time.Sleep(time.Minute)
		if taken, waited, err := l.take(t.Context()); waited || err != nil {
			t.Errorf("all have ended, and one waits: %v", err)
		} else if _, _, err := l.take(deadline(t)); err == nil {
			t.Error("there are two for one")
		} else {
			taken.release()
		}
	})
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(stop)
	return ctx
}

// A pause is not for those alone that have not begun to wait.
func TestAnAttemptThatWaitedForItsTurnIsNoneWhenNothingIsToBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold, called := make(chan struct{}), 0
		s := within(nil, nil, func(context.Context, *dispatch.Record) error {
			called++
			<-hold
			return nil
		})
		s.SetConcurrency(1)
		answers := make(chan error, 2)
		for range 2 {
			go func() { answers <- s.Handle(t.Context(), &dispatch.Record{Attempt: 1}) }()
		}
		synctest.Wait()
		s.SetPaused(true)
		close(hold)
		synctest.Wait()
		first, second := <-answers, <-answers
		if called != 1 || first != nil || !errors.Is(second, errNoSlot) || !errors.As(second, new(spared)) {
			t.Errorf("%d attempts: %v and %v", called, first, second)
		}
	})
}

// A slot may come at the moment in which who waits for it gives up: it is the next one's then.
func TestASlotThatComesToWhoGivesUpIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l slots
		l.bound(1)
		for i := range 200 {
			if _, _, err := l.take(t.Context()); err != nil { // it is given below
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var other *slots
			go func() { other, _, _ = l.take(ctx) }()
			synctest.Wait()
			l.mu.Lock() // both happen before it can tell one from the other
			cancel()
			l.used--
			l.pass()
			l.mu.Unlock()
			synctest.Wait()
			other.release()
			if l.used != 0 {
				t.Fatalf("%d slots are taken after %d rounds, by nobody", l.used, i+1)
			}
		}
	})
}

// A slot may come at the moment in which a drain begins: then it is for those that have begun.
func TestASlotThatComesWithADrainIsNotUsed(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, memlog.New(), "orders")
	if _, err := topic.Append(t.Context(), 0, []commitlog.Record{{}}, nil); err != nil {
		t.Fatal(err)
	}
	began, drained := make(chan struct{}), make(chan struct{})
	e, err := dispatch.New(dispatch.Config{
		Name: "0", Inputs: []dispatch.Input{{Source: dispatch.Partition(topic, 0)}},
		Handler: func(ctx context.Context, _ *dispatch.Record) error {
			close(began)
			<-drained
			mine := make(chan struct{})
			close(mine)
			for range 64 { // either may be seen first
				if err := await(ctx, mine); !errors.Is(err, errNoSlot) {
					t.Errorf("with a slot, in a drain: %v", err)
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() { over <- e.Run(t.Context()) }() // received below
	<-began
	e.Drain()
	close(drained)
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// A bound that is raised holds at once, also for what is parked and due.
func TestARaisedBoundIsUsedByWhatIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		atWork, hold := 0, make(chan struct{})
		var mu sync.Mutex
		s := begin(t, policy(time.Second, time.Minute, 0, 1), nil, func(context.Context, *dispatch.Record) error {
			mu.Lock()
			atWork++
			mu.Unlock()
			<-hold
			return nil
		})
		s.SetConcurrency(1)
		s.delay(4, time.Minute)
		time.Sleep(2 * time.Minute)
		for most := 1; most <= 3; most++ {
			s.SetConcurrency(most)
			synctest.Wait()
			mu.Lock()
			if atWork != most {
				t.Errorf("%d are at work; expected %d", atWork, most)
			}
			mu.Unlock()
		}
		close(hold)
		synctest.Wait()
	})
}

// An attempt that ends while it waits for its endpoint leaves the slot of its subscription to others.
func TestWhoGivesUpAtTheEndpointKeepsNoSlot(t *testing.T) {
	t.Parallel()
	at := NewEndpoint(0, 1)
	defer at.End()
	s := within(nil, at, func(context.Context, *dispatch.Record) error { return nil })
	s.slots.bound(1)
	there, _, err := at.slots.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.deliver(ctx, &dispatch.Record{Attempt: 1}, permit{}, false); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; expected that it gave up", err)
	}
	there.release()
	if _, waited, err := s.slots.take(deadline(t)); waited || err != nil {
		t.Errorf("nothing is under way, and one waits: %v", err)
	}
}

// A handler that returns at once, of a subscription without limits, costs what consuming costs.
func TestADeliveryWithoutLimitsAllocatesNothing(t *testing.T) {
	s := within(nil, nil, func(context.Context, *dispatch.Record) error { return nil })
	r := &dispatch.Record{Attempt: 1}
	if got := testing.AllocsPerRun(100, func() {
		if err := s.deliver(t.Context(), r, permit{}, false); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("%v allocations a delivery; expected none", got)
	}
}
