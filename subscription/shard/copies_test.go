package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
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
		s := beginIn(t, log, policy(time.Second, time.Minute, 0, 1), nil, func(context.Context, *dispatch.Record) error {
			attempts.Add(1)
			return errors.New("no")
		})
		s.delay(records, time.Hour)
		most := 0
		for range 90 * 60 {
			time.Sleep(time.Second)
			s.mu.Lock()
			most = max(most, len(s.letters))
			s.mu.Unlock()
		}
		select {
		case <-s.over:
			t.Fatalf("the shard ended: %v", s.ended())
		default:
		}
		if n := attempts.Load(); n != records {
			t.Errorf("%d attempts at %d records; expected one each", n, records)
		}
		j := Journals{Set: "k3m9q2xt", Shards: 1, Journal: s.cfg.Journal, Dead: s.cfg.Dead}
		items, err := j.Items(t.Context(), 0)
		for i := range items {
			if !items[i].Dead {
				t.Fatalf("record %d is no dead letter", items[i].Offset)
			}
		}
		if err != nil || len(items) != records {
			t.Errorf("%d dead letters, %v; expected %d", len(items), err, records)
		}
		if limit := mostLetters + parkedAtOnce; most > limit {
			t.Errorf("%d dead letters waited for their copies; expected at most %d", most, limit)
		}
	})
}

// brokenDead is a log that appends no dead letters until it is mended.
type brokenDead struct {
	driver.Log
	mended *atomic.Bool
}

func (l brokenDead) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if name == "dead" {
		t = brokenTopic{t, l.mended}
	}
	return t, err
}

type brokenTopic struct {
	driver.Topic
	mended *atomic.Bool
}

func (t brokenTopic) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	if !t.mended.Load() {
		done(0, fault.Unavailable)
		return
	}
	t.Topic.Append(ctx, req, done)
}

// The journal names no dead letter before its copy is stored: with the journal's beginning, the record itself goes.
func TestShardGivesUpARecordOnlyOnceItsCopyIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		s := beginIn(t, commitlog.New(brokenDead{memlog.NewStore(nil).Driver(), &mended}), policy(time.Second, time.Minute, 0, 1), nil,
			func(context.Context, *dispatch.Record) error { return errors.New("no") })
		s.delay(1, time.Hour)
		j := Journals{Set: "k3m9q2xt", Shards: 1, Journal: s.cfg.Journal, Dead: s.cfg.Dead}
		for _, stored := range []bool{false, true} {
			mended.Store(stored)
			time.Sleep(2 * time.Hour)
			items, err := j.Items(t.Context(), 0)
			if err != nil || len(items) != 1 || items[0].Dead != stored {
				t.Fatalf("stored %t: %+v, %v; expected a dead letter once its copy is stored", stored, items, err)
			}
			if _, lost, err := j.Payload(t.Context(), 0, &items[0]); lost != nil || err != nil {
				t.Errorf("stored %t: the payload can't be read: %v, %v", stored, lost, err)
			}
		}
	})
}
