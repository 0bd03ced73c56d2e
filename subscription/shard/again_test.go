package shard

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// A record of a key that has been parked before, and is known of, is delivered when its time has come as any other is.
func TestADelayOfAKeyThatWasParkedBeforeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan int64, 9)
		s := begin(t, policy(time.Second, time.Minute, 0, 1), nil, func(_ context.Context, r *dispatch.Record) error {
			calls <- r.Offset
			return nil
		})
		for offset := range int64(3) {
			s.later(offset, "k", time.Minute)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(calls) != 1 {
				t.Fatalf("%d deliveries of record %d; expected one", len(calls), offset)
			}
			if got := <-calls; got != offset {
				t.Errorf("record %d was delivered; expected %d", got, offset)
			}
		}
	})
}

// Other things than the rate hold a shard back, too, slots among them: then it has no token to spend on what is parked.
func TestNoParkedRecordIsPaidForInAnotherPause(t *testing.T) {
	t.Parallel()
	s := within(nil, nil, nil)
	for _, p := range []pauses{0, crowded, throttled | crowded, throttled | heldBack} {
		s.paused = p
		if s.tryPaid(permit{}, throttled) || len(s.wake) != 0 {
			t.Errorf("paused for %b: a parked record is tried", p)
		}
	}
	s.paused = throttled
	if s.tryPaid(permit{}, throttled); len(s.wake) != 1 {
		t.Error("held back by the rate alone, it is not even looked for one")
	}
	<-s.wake
	s.slots.bound(1)
	if _, _, err := s.slots.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.tryPaid(permit{}, throttled); len(s.wake) != 0 {
		t.Error("it is looked for one, for which there is no slot")
	}
}

// A handler that ends its goroutine has failed, also with a record that was parked.
func TestAHandlerOfAParkedRecordThatExitsHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan int, 9)
		s := begin(t, policy(time.Second, time.Minute, 0, 3), &Limiter{circuit: newCircuit(quiet())}, func(_ context.Context, r *dispatch.Record) error {
			if calls <- r.Attempt; r.Attempt == 1 {
				runtime.Goexit()
			}
			return nil
		})
		s.SetConcurrency(1)
		s.later(0, "k", time.Minute)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(calls) != 2 {
			t.Errorf("%d attempts; expected another one after the first", len(calls))
		}
	})
}
