package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/testlog"
)

func TestAFailingRecordIsTriedAgainWithGrowingPausesBeforeItsFollowers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(30, 3)
		var mu sync.Mutex
		var at []time.Duration
		var calls []string
		began := time.Now()
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
			mu.Lock()
			defer mu.Unlock()
			if string(r.Key) == "k0" {
				calls = append(calls, fmt.Sprintf("%d/%d", r.Offset, r.Attempt))
			}
			if r.Offset == 3 && r.Attempt <= 4 {
				at = append(at, time.Since(began))
				return errors.New("not yet")
			}
			return nil
		}})
		launch(t, e)
		synctest.Wait()
		if s := e.stats(); s.InFlight != 9 || s.Retrying != 1 || s.Failed != 1 || s.Finished != 21 {
			t.Errorf("after the first failure: %+v", s)
		}
		if f := e.failing(); len(f) != 1 || f[0] != "3 k0 not yet" {
			t.Errorf("failing: %q", f)
		}
		rest(time.Minute)
		if got := strings.Join(calls, " "); got != "0/1 3/1 3/2 3/3 3/4 3/5 6/1 9/1 12/1 15/1 18/1 21/1 24/1 27/1" {
			t.Errorf("calls for the key: %s", got)
		}
		for i := 1; i < len(at); i++ {
			full := 100 * time.Millisecond << (i - 1)
			if d := at[i] - at[i-1]; d < full/2 || d > full {
				t.Errorf("pause %d was %s; expected %s to %s", i, d, full/2, full)
			}
		}
	})
}

func TestRetryPausesDoubleUpToTheirMaximum(t *testing.T) {
	t.Parallel()
	r := Retry{Initial: 100 * time.Millisecond, Max: 30 * time.Second}
	longest := r.Initial
	for attempts := 1; attempts < 100; attempts++ {
		for range 20 { // each is shortened at random
			if d := r.pause(attempts); d < longest/2 || d > longest {
				t.Errorf("pause after %d attempts: %s; expected between half of %s and all of it", attempts, d, longest)
			}
		}
		longest = min(2*longest, r.Max)
	}
}

func TestGivingUpFinishesARecordOnlyWhenThePolicySaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 1)
		asked, handled := 0, 0
		boom := errors.New("boom")
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
			handled++
			if r.Offset == 0 {
				return boom
			}
			return nil
		}, Retry: Retry{MaxAttempts: 3}, OnHeld: func(_ context.Context, r *Record, h Held) error {
			if asked++; r.Offset != 0 || !errors.Is(h.Err, boom) || h.Attempts != 3 || h.Why != SpentAttempts {
				t.Errorf("asked about %d: %+v", r.Offset, h)
			}
			if asked == 1 {
				return errors.New("the dead-letter topic is away")
			}
			return nil
		}})
		launch(t, e)
		rest(time.Minute)
		if asked != 2 || handled != 4 {
			t.Errorf("asked %d times, handled %d times", asked, handled)
		}
		if p := e.Progress().Positions[0]; p.Next != 2 {
			t.Errorf("progress %+v", p)
		}
	})
}

func TestAPanicIsAFailureOfTheRecordAndIsLoggedWithItsStack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(3, 3)
		var out testlog.Buffer
		e := mustNew(t, Config{Inputs: l.input(), Logger: out.Logger(), Handler: func(_ context.Context, r *Record) error {
			if r.Offset == 1 && r.Attempt == 1 {
				panic("the sky falls")
			}
			return nil
		}})
		stop := launch(t, e)
		rest(time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 3 {
			t.Errorf("progress %+v", p)
		}
		drain(t, e, stop)
		if s := out.String(); !strings.Contains(s, "the sky falls") || !strings.Contains(s, "retry_test.go") {
			t.Errorf("log: %s", s)
		}
	})
}

func TestAHandlerThatEndsItsGoroutineIsAFailureOfTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1000, 10)
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
			if r.Offset%100 == 50 && r.Attempt == 1 {
				runtime.Goexit()
			}
			return nil
		}})
		launch(t, e)
		rest(time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 1000 || e.stats().Failed != 10 {
			t.Errorf("progress %+v, %+v", p, e.stats())
		}
	})
}

func TestAPoisonKeyTakesBoundedMemoryAndLetsOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog()
		value := strings.Repeat("x", 1000)
		for i := range 30000 { // one in 50 is of the poison key
			l.add(fmt.Sprintf("k%d", i%50), value, 0)
		}
		const limit = 1 << 20
		most := int64(0)
		var e *Engine
		e = mustNew(t, Config{Inputs: l.input(), MaxBytes: limit, MaxRanges: 5000, Handler: func(_ context.Context, r *Record) error {
			if string(r.Key) == "k7" {
				return errors.New("poison")
			}
			if r.Offset%100 == 0 {
				most = max(most, e.stats().Bytes)
			}
			return nil
		}, Concurrency: 1})
		launch(t, e)
		rest(time.Second)
		// 600 followers of 1.3 KiB fit, the reads that brought them (30 MB) do not.
		if s := e.stats(); s.Finished != 30000-600 || s.InFlight != 600 {
			t.Errorf("%+v", s)
		}
		if most > limit*3/2 {
			t.Errorf("%d bytes were in flight; the bound is %d", most, limit)
		}
	})
}

func TestPeopleAreToldWhenFailingKeysStopTheReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1000, 2)
		var out testlog.Buffer
		var well atomic.Bool
		e := mustNew(t, Config{Inputs: l.input(), MaxInFlight: 100, Logger: out.Logger(), Handler: func(_ context.Context, r *Record) error {
			if r.Offset == 7 && !well.Load() {
				return errors.New("poison")
			}
			return nil
		}})
		launch(t, e)
		rest(time.Minute)
		if n := strings.Count(out.String(), "nothing more is read"); n != 1 || !strings.Contains(out.String(), "failing=1") {
			t.Errorf("told %d times: %s", n, out.String())
		}
		well.Store(true)
		rest(time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 1000 || strings.Count(out.String(), "reading goes on") != 1 {
			t.Errorf("progress %+v, log %s", p, out.String())
		}
	})
}
