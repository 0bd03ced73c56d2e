package shard

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
)

// A journal keeps no time beyond the longest pause, here a day: whoever looks then sees that it is too early.
func TestADelayIsKeptHoweverLongItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 100*time.Hour + 7*time.Millisecond
		began, calls := time.Now(), make(chan time.Duration, 9)
		s := begin(t, policy(time.Second, time.Minute, 0, 1), nil, func(_ context.Context, r *dispatch.Record) error {
			if r.Attempt == 1 {
				calls <- time.Since(began)
			}
			return nil
		})
		r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{
			Key: []byte("k"), Headers: []commitlog.Header{{Name: NotBefore, Value: []byte(began.Add(delay).UTC().Format(time.RFC3339Nano))}},
		}}
		if err := s.Handle(t.Context(), r); err != nil {
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
		r.Headers[0].Value = time.Now().Add(time.Hour).UTC().AppendFormat(nil, time.RFC3339) // as for an heir whose clock is behind
		if err := s.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(calls) != 0 {
			t.Error("delivered once more when it was read again after its end")
		}
	})
}

// Of several times the last counts: whoever forwards a record adds a header, and takes none away.
func TestOfSeveralTimesTheLastCounts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	later := func(d time.Duration) commitlog.Header {
		return commitlog.Header{Name: NotBefore, Value: strconv.AppendInt(nil, now.Add(d).UnixMilli(), 10)}
	}
	for _, last := range []time.Duration{-time.Hour, time.Hour} {
		at, err := notBefore(&commitlog.Record{Headers: []commitlog.Header{later(24 * time.Hour), later(last), {Name: "other"}}}, time.Now)
		if due := now.Add(last).UnixMilli(); err != nil || at.IsZero() != (last < 0) || last > 0 && at.UnixMilli() != due {
			t.Errorf("%s, %v; expected %s", at, err, time.UnixMilli(due))
		}
	}
}

// Who redrives a record whose time makes no sense has decided that it comes now.
func TestARedriveDeliversARecordWhoseTimeMakesNoSense(t *testing.T) {
	t.Parallel()
	calls := 0
	s := within(nil, nil, func(context.Context, *dispatch.Record) error { calls++; return nil })
	r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Headers: []commitlog.Header{{Name: NotBefore, Value: []byte("tomorrow")}}}}
	if err := s.parked(t.Context(), r, 0, permit{}); !dispatch.IsPermanent(err) || calls != 0 {
		t.Errorf("%v after %d calls; expected it to be given up", err, calls)
	}
	if err := s.parked(t.Context(), r, 1, permit{}); err != nil || calls != 1 {
		t.Errorf("%v after %d calls; expected it to be delivered", err, calls)
	}
}
