package shard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
)

// Who answers while the handler of a parked record still runs is told, too, that it is somebody else's.
func TestAnAnswerForAParkedRecordOfALostShardIsTold(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		ctx, lose := context.WithCancel(t.Context())
		var told error
		s := within(nil, nil, func(_ context.Context, r *dispatch.Record) error {
			l := dispatch.NewLater(r)
			r.AnswerLater(l)
			if lost {
				lose()
			}
			told = l.Answer(nil)
			return nil
		})
		if err := s.ask(ctx, &dispatch.Record{}, true); err != nil || lost != errors.Is(told, fault.Fenced) || !lost && told != nil {
			t.Errorf("lost %t: the answer was taken as %v; expected ErrFenced when it is lost", lost, told)
		}
		lose()
	}
}

// A record with a late answer is out until that comes: if it fails then, and is parked, its next attempt comes.
func TestShardGoesOnWithAKeyAfterALateFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last *dispatch.Later
		delivered := map[int64]int{}
		s := begin(t, policy(time.Second, time.Minute, 0, 0), nil, func(_ context.Context, r *dispatch.Record) error {
			if delivered[r.Offset]++; r.Offset == 1 && delivered[1] == 1 {
				last = dispatch.NewLater(r)
				r.AnswerLater(last)
			}
			return nil
		})
		s.later(0, "k", time.Minute)
		s.later(9, "other", time.Hour)
		time.Sleep(2 * time.Minute)
		r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: 1, Key: []byte("k")}}
		if err := s.Handle(t.Context(), r); err != nil || !r.Late() {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { _ = last.Answer(errors.New("no")) })
		failure := r.Wait(t.Context(), nil, 0)
		now := time.Now()
		if err := s.Held(t.Context(), r, dispatch.Held{Attempts: 1, Since: now, Next: now.Add(time.Minute), Err: failure}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if delivered[0] != 1 || delivered[1] != 2 {
			t.Errorf("delivered %v times; expected record 0 once and record 1 twice", delivered)
		}
	})
}
