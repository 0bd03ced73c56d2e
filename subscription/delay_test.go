package subscription

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

// A journal keeps no time beyond the longest pause, here a day: whoever looks then sees that it is too early.
func TestADelayIsKeptHoweverLongItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 100*time.Hour + 7*time.Millisecond
		log := memlog.New()
		topic := func(name string) *commitlog.Topic {
			if err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			opened, err := log.Topic(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return opened
		}
		began, calls := time.Now(), make(chan time.Duration, 9)
		s := NewShard(ShardConfig{
			Definition: &Document{Name: "billing", Sets: []Set{{ID: "k3m9q2xt", Shards: 1, State: active}}, Retry: NewRetry(time.Second, time.Minute, 0, 1)},
			Journal:    topic("journal"), Dead: topic("dead"), Epoch: 1, Logger: slog.New(slog.DiscardHandler),
			Handler: func(_ context.Context, r *dispatch.Record) error {
				if r.Attempt == 1 {
					calls <- time.Since(began)
				}
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- s.Run(ctx) }()
		<-s.Started()
		r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{
			Key: []byte("k"), Headers: []commitlog.Header{{Name: NotBefore, Value: []byte(began.Add(delay).UTC().Format(time.RFC3339Nano))}},
		}}
		if err := s.Handle(ctx, r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay + time.Minute)
		synctest.Wait()
		if len(calls) != 1 {
			t.Fatalf("%d deliveries; expected one", len(calls))
		}
		if at := <-calls; at < delay || at > delay+time.Second {
			t.Errorf("delivered after %s; expected %s", at, delay)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
