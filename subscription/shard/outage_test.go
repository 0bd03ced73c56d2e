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
			log := memlog.New()
			var away atomic.Bool
			var delivered, tried atomic.Int64
			limits := NewLimiter(quiet())
			defer limits.End()
			s := New(Config{
				Name: "billing", Set: "k3m9q2xt", Retry: policy(time.Second, time.Minute, 0, 3), Limits: limits,
				Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Epoch: 1, Logger: quiet(),
				Handler: func(_ context.Context, r *dispatch.Record) error {
					switch {
					case away.Load():
						tried.Add(1)
						return down{}
					case r.Attempt == 1:
						return errors.New("broken") // an answer of the endpoint
					}
					delivered.Add(1)
					return nil
				},
			})
			defer limits.Join(s, 1)()
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() { over <- s.Run(ctx) }() // joined below
			<-s.Started()
			at := time.Now().Add(time.Minute).UTC().AppendFormat(nil, time.RFC3339Nano)
			for offset := range keys {
				r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: fmt.Append(nil, offset), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
				if err := s.Handle(ctx, r); err != nil {
					t.Fatal(err)
				}
			}
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
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
	}
}
