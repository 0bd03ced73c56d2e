package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

// What is parked loses no attempt in an outage, though nothing new is tried meanwhile, of one key or of many.
func TestParkedRecordsKeepTheirAttemptsInAnOutage(t *testing.T) {
	t.Parallel()
	for _, keys := range []int64{1, 2, 20, 200} {
		synctest.Test(t, func(t *testing.T) {
			var away atomic.Bool
			var delivered, tried atomic.Int64
			limits := NewLimiter(quiet())
			defer limits.End()
			s := begin(t, policy(time.Second, time.Minute, 0, 3), limits, func(_ context.Context, r *dispatch.Record) error {
				switch {
				case away.Load():
					tried.Add(1)
					return down{}
				case r.Attempt == 1:
					return errors.New("broken") // an answer of the endpoint
				}
				delivered.Add(1)
				return nil
			})
			defer limits.Join(s.Shard, 1)()
			s.delay(keys, time.Minute)
			time.Sleep(time.Minute + 100*time.Millisecond) // each has failed once, and is tried again in half a second at the earliest
			synctest.Wait()
			away.Store(true)
			time.Sleep(time.Hour)
			away.Store(false)
			if n := tried.Load(); n < 10 {
				t.Errorf("%d keys: tried %d times in an hour", keys, n)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := delivered.Load(); n != keys {
				t.Errorf("%d of %d records were delivered after the outage", n, keys)
			}
		})
	}
}

// An endpoint that asks for an hour and works again before is tried within a minute, and the journal tells until when
// and why the record waits.
func TestARecordThatAnOutagePutsOffIsToldAndTriedWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, done atomic.Bool
		limits := NewLimiter(quiet())
		defer limits.End()
		retry := policy(time.Second, time.Minute, 0, 3)
		retry.MaxAsked = time.Hour
		s := begin(t, retry, limits, func(_ context.Context, r *dispatch.Record) error {
			switch {
			case away.Load():
				return down{time.Hour}
			case r.Attempt == 1:
				return errors.New("broken")
			}
			done.Store(true)
			return nil
		})
		defer limits.Join(s.Shard, 1)()
		s.delay(1, time.Minute)
		time.Sleep(time.Minute + 100*time.Millisecond) // it has failed once, and is tried again in half a second at the earliest
		away.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		away.Store(false)
		j := Journals{Set: s.cfg.Set, Shards: 1, Retry: retry, Journal: s.cfg.Journal, Dead: s.cfg.Dead}
		items, err := j.Items(t.Context(), 0)
		if err != nil || len(items) != 1 {
			t.Fatal(items, err)
		}
		if it, now := items[0], time.Now(); it.Attempts != 1 || it.Answer != "down" || it.Due <= now.UnixMilli() || it.Due > now.Add(longestWait).UnixMilli() {
			t.Errorf("at %d: %+v", now.UnixMilli(), it)
		}
		time.Sleep(longestWait)
		synctest.Wait()
		if !done.Load() {
			t.Error("it is not delivered a minute after the endpoint works again")
		}
	})
}

// What lies behind parked records makes no attempt: a turn that it takes is followed by another one at once, so an
// endpoint that is back is found soon, however many records those are.
func TestCircuitClosesSoonWhenManyRecordsLieBehindParkedOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys = 200
		limits := NewLimiter(quiet())
		defer limits.End()
		main := newTopic(t, memlog.New(), "orders")
		add := func(records ...commitlog.Record) {
			if _, err := main.Append(t.Context(), 0, records, nil); err != nil {
				t.Error(err)
			}
		}
		var parked, behind []commitlog.Record
		at := time.Now().Add(time.Hour).UTC().AppendFormat(nil, time.RFC3339Nano)
		for key := range keys {
			parked = append(parked, commitlog.Record{Key: fmt.Append(nil, key), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}})
			behind = append(behind, commitlog.Record{Key: fmt.Append(nil, key)})
		}
		add(append(parked, commitlog.Record{Key: []byte("sound")})...)
		var tried atomic.Int64
		s := begin(t, policy(time.Second, time.Minute, time.Second, 3), limits, func(context.Context, *dispatch.Record) error {
			if tried.Add(1) > 1 {
				return nil
			}
			add(behind...)
			time.Sleep(time.Second) // they are read meanwhile
			return cut{}
		})
		defer limits.Join(s.Shard, 1)()
		e, err := dispatch.New(dispatch.Config{
			Name: "0", Inputs: []dispatch.Input{{Source: dispatch.Partition(main, 0)}}, Concurrency: 1,
			Handler: s.Handle, OnHeld: s.Held, Retry: s.cfg.Retry,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Uses(e)
		over := make(chan error)
		go func() { over <- e.Run(t.Context()) }() // received below
		time.Sleep(time.Second + probeSoon*keys*2)
		synctest.Wait()
		if limits.circuit.period.Load() == 0 {
			t.Error("the circuit did not open")
		}
		if n := tried.Load(); n != 2 || limits.circuit.open() {
			t.Errorf("%d attempts, open %t; expected a second one, which closes the circuit", n, limits.circuit.open())
		}
		e.Drain()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
