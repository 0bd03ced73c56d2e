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
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
)

// slowDead is a log that takes its time for each append to the dead letters.
type slowDead struct{ driver.Log }

func (l slowDead) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if name == "dead" {
		t = slowTopic{t}
	}
	return t, err
}

type slowTopic struct{ driver.Topic }

func (t slowTopic) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	time.Sleep(10 * time.Millisecond)
	t.Topic.Append(ctx, req, done)
}

// Dead letters that are on their way push back: the pump begins no more attempts than can be copied, and the shard goes
// on, with each record attempted once.
func TestShardPushesBackWhileDeadLettersAreCopied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records = 3000
		log := commitlog.New(slowDead{memlog.NewStore(nil).Driver()})
		var attempts atomic.Int64
		s := New(Config{
			Name: "billing", Set: "k3m9q2xt", Retry: policy(time.Second, time.Minute, 0, 1),
			Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Epoch: 1, Logger: quiet(),
			Handler: func(context.Context, *dispatch.Record) error {
				attempts.Add(1)
				return errors.New("no")
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- s.Run(ctx) }() // joined below
		<-s.Started()
		at := time.Now().Add(time.Hour).UTC().AppendFormat(nil, time.RFC3339Nano)
		for offset := range int64(records) {
			r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: fmt.Append(nil, offset), Headers: []commitlog.Header{{Name: NotBefore, Value: at}}}}
			if err := s.Handle(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		most := 0
		for range 90 * 60 {
			time.Sleep(time.Second)
			s.mu.Lock()
			most = max(most, len(s.copies))
			s.mu.Unlock()
		}
		select {
		case err := <-over:
			t.Fatalf("the shard ended: %v", err)
		default:
		}
		if n := attempts.Load(); n != records {
			t.Errorf("%d attempts at %d records; expected one each", n, records)
		}
		j := Journals{Set: "k3m9q2xt", Shards: 1, Journal: s.cfg.Journal, Dead: s.cfg.Dead}
		items, err := j.Items(ctx, 0)
		for i := range items {
			if !items[i].Dead {
				t.Fatalf("record %d is no dead letter", items[i].Offset)
			}
		}
		if err != nil || len(items) != records {
			t.Errorf("%d dead letters, %v; expected %d", len(items), err, records)
		}
		if limit := mostCopies + s.cfg.Concurrency; most > limit {
			t.Errorf("%d dead letters waited for their copies; expected at most %d", most, limit)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
