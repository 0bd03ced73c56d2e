package shard

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

// A record of a key that has been parked before, and is known of, is delivered when its time has come as any other is.
func TestADelayOfAKeyThatWasParkedBeforeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		calls := make(chan int64, 9)
		s := New(Config{
			Name: "billing", Set: "k3m9q2xt", Retry: policy(time.Second, time.Minute, 0, 1),
			Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Epoch: 1, Logger: quiet(),
			Handler: func(_ context.Context, r *dispatch.Record) error {
				calls <- r.Offset
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- s.Run(ctx) }() // joined below
		<-s.Started()
		for offset := range int64(3) {
			at := time.Now().Add(time.Minute).UTC().AppendFormat(nil, time.RFC3339Nano)
			r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: []byte("k"), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
			if err := s.Handle(ctx, r); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(calls) != 1 {
				t.Fatalf("%d deliveries of record %d; expected one", len(calls), offset)
			}
			if got := <-calls; got != offset {
				t.Errorf("record %d was delivered; expected %d", got, offset)
			}
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// Other things than the rate hold a shard back, too, slots among them: then it has no token to spend on what is parked.
func TestNoParkedRecordIsPaidForInAnotherPause(t *testing.T) {
	t.Parallel()
	s := &Shard{cfg: Config{}, kick: make(chan struct{}, 1)}
	s.st = New(Config{Logger: quiet()}).st
	for _, p := range []pauses{0, crowded, throttled | crowded, throttled | heldBack} {
		s.paused = p
		if s.tryPaid(throttled) || len(s.kick) != 0 || s.paid.Load() != 0 {
			t.Errorf("paused for %b: a parked record is tried", p)
		}
	}
	s.paused = throttled
	if s.tryPaid(throttled); len(s.kick) != 1 {
		t.Error("held back by the rate alone, it is not even looked for one")
	}
	<-s.kick
	s.slots.bound(1)
	if _, _, err := s.slots.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.tryPaid(throttled); len(s.kick) != 0 {
		t.Error("it is looked for one, for which there is no slot")
	}
}

// A handler that ends its goroutine has failed, also with a record that was parked.
func TestAHandlerOfAParkedRecordThatExitsHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		calls := make(chan int, 9)
		s := New(Config{
			Name: "billing", Set: "k3m9q2xt", Retry: policy(time.Second, time.Minute, 0, 3),
			Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Epoch: 1, Logger: quiet(), Limits: &Limiter{circuit: newCircuit(quiet())},
			Handler: func(_ context.Context, r *dispatch.Record) error {
				if calls <- r.Attempt; r.Attempt == 1 {
					runtime.Goexit()
				}
				return nil
			},
		})
		s.SetConcurrency(1)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- s.Run(ctx) }() // joined below
		<-s.Started()
		at := time.Now().Add(time.Minute).UTC().AppendFormat(nil, time.RFC3339Nano)
		r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Key: []byte("k"), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
		if err := s.Handle(ctx, r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(calls) != 2 {
			t.Errorf("%d attempts; expected another one after the first", len(calls))
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
