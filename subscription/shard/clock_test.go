package shard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
)

// settable is a shard on a host whose clock is ahead by what off says, and what its handler is called with.
type settable struct {
	*atWork
	off   atomic.Int64
	once  atomic.Bool // it is set right after one more look
	began time.Time
	calls chan call
}

type call struct {
	key   string
	after time.Duration
}

// onAHost runs a shard until the test ends. Its handler refuses the second attempt at a record.
func onAHost(t *testing.T, ahead time.Duration) *settable {
	t.Helper()
	h := &settable{began: time.Now(), calls: make(chan call, 99)}
	h.off.Store(int64(ahead))
	h.atWork = begin(t, policy(time.Minute, time.Minute, 0, 9), nil, func(_ context.Context, r *dispatch.Record) error {
		h.calls <- call{string(r.Key), time.Since(h.began)}
		if r.Attempt <= 2 && len(r.Headers) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = clock{day: func() time.Time {
		off := h.off.Load()
		if h.once.Swap(false) {
			h.off.Store(0)
		}
		return time.Now().Add(time.Duration(off))
	}}
	return h
}

// fail parks a record that has failed once and is to be tried again in a minute.
func (h *settable) fail(offset int64, key string) {
	h.t.Helper()
	r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: offset, Key: []byte(key)}}
	if err := h.Held(h.t.Context(), r, dispatch.Held{Attempts: 1, Since: time.Now(), Next: time.Now().Add(time.Minute), Err: errors.New("no"), Why: dispatch.HeldLong}); err != nil {
		h.t.Fatal(err)
	}
}

// until lets time go by, and says after how much of it the handler was called since.
func (h *settable) until(after time.Duration) (calls []call) {
	time.Sleep(time.Until(h.began.Add(after)))
	synctest.Wait()
	for len(h.calls) > 0 {
		calls = append(calls, <-h.calls)
	}
	for i := range calls {
		calls[i].after = calls[i].after.Round(time.Second)
	}
	return calls
}

// A host begins with a clock that is a day ahead, and then it is set right.
func TestAClockThatIsSetBackHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := onAHost(t, 24*time.Hour)
		h.fail(0, "a")
		time.Sleep(20 * time.Second)
		h.off.Store(0)
		h.fail(1, "b")
		if got, want := h.until(85*time.Second), []call{{"a", time.Minute}, {"b", 80 * time.Second}}; !slices.Equal(got, want) {
			t.Errorf("the next attempts were %v; expected %v", got, want)
		}
		h.off.Store(-int64(time.Hour))
		got := h.until(time.Hour) // pauses of a minute at most
		slices.SortFunc(got, func(a, b call) int { return strings.Compare(a.key, b.key) })
		if len(got) != 2 || got[0].key != "a" || got[0].after > 2*time.Minute || got[1].key != "b" || got[1].after > 140*time.Second {
			t.Errorf("then they were %v; expected one of a and one of b, each within a minute of the last", got)
		}
	})
}

// The clock is set back while a record is being parked: its pause is by one look at the clock.
func TestAClockThatIsSetBackAmidAParkingHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := onAHost(t, 0)
		synctest.Wait()
		h.once.Store(true)
		h.off.Store(int64(24 * time.Hour))
		h.fail(0, "a")
		if got, want := h.until(90*time.Second), []call{{"a", time.Minute}}; !slices.Equal(got, want) {
			t.Errorf("the next attempts were %v; expected %v", got, want)
		}
	})
}

// A clock is corrected a little all the time, and that may come to much.
func TestManySmallStepsBackAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var off time.Duration
		c := clock{day: func() time.Time { return time.Now().Add(off) }}
		if _, back := c.look(); back != 0 {
			t.Errorf("at first it was set back by %s", back)
		}
		for i, want := range []time.Duration{0, 0, 300 * time.Millisecond, 0} {
			time.Sleep(time.Minute)
			off -= 100 * time.Millisecond
			if _, back := c.look(); back != want {
				t.Errorf("after %d steps of 100 ms it was set back by %s since; expected %s", i+1, back, want)
			}
		}
	})
}

// What is to be delivered at a time of day is delivered then, whatever is done to the clock.
func TestADelayIsOfTheTimeOfDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := onAHost(t, 0)
		h.later(0, "soon", 10*time.Minute)
		h.later(1, "late", 10*time.Hour)
		time.Sleep(5 * time.Minute)
		h.off.Store(-int64(time.Hour)) // it is set back by an hour
		if got, want := h.until(2*time.Hour), []call{{"soon", 70 * time.Minute}}; !slices.Equal(got, want) {
			t.Errorf("delivered %v; expected %v, when its time had come", got, want)
		}
		h.off.Store(int64(8 * time.Hour)) // and then forward by nine
		if got := h.until(2*time.Hour + dayEvery); len(got) != 1 || got[0].key != "late" {
			t.Errorf("delivered %v; expected what its time had come of, within %s", got, dayEvery)
		}
	})
}
