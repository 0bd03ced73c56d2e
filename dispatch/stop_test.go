package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
)

func TestADrainStartsNothingAndKeepsWhatRunningHandlersFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(100, 0)
		var started atomic.Int32
		e := mustNew(t, Config{Inputs: l.input(), Concurrency: 4, Handler: func(ctx context.Context, r *Record) error {
			started.Add(1)
			time.Sleep(time.Second)
			return ctx.Err()
		}})
		res := make(chan error, 1)
		go func() { res <- e.Run(t.Context()) }() // joined below
		synctest.Wait()
		e.Drain()
		began := time.Now()
		if err := <-res; err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != time.Second || started.Load() != 4 {
			t.Errorf("drained after %s with %d handlers started", d, started.Load())
		}
		if p := e.Final().Positions; len(p) != 1 || p[0].Next != 4 || p[0].Done != nil {
			t.Errorf("final %+v", p)
		}
	})
}

func TestADrainThatTakesTooLongCancelsHandlersAndKeepsWhatTheyFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 2)
		e := mustNew(t, Config{Inputs: l.input(), DrainTimeout: time.Second, Handler: func(ctx context.Context, r *Record) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			if r.Offset == 1 {
				return nil // it got done all the same
			}
			return ctx.Err()
		}})
		res := make(chan error, 1)
		go func() { res <- e.Run(t.Context()) }() // joined below
		synctest.Wait()
		e.Drain()
		if err := <-res; err != nil {
			t.Error(err)
		}
		if p := e.Final().Positions[0]; p.Next != 0 || !slices.Equal(p.Done, []protocol.Range{{1, 2}}) {
			t.Errorf("final %+v", p)
		}
	})
}

func TestLostOwnershipCancelsHandlersAndFreezesProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(10, 0)
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(ctx context.Context, r *Record) error {
			if r.Offset < 3 {
				return nil
			}
			<-ctx.Done()
			return nil // too late to count
		}})
		lost := errors.New("somebody else owns it")
		ctx, cancel := context.WithCancelCause(t.Context())
		res := make(chan error, 1)
		go func() { res <- e.Run(ctx) }() // joined below
		synctest.Wait()
		began := time.Now()
		cancel(lost)
		if err := <-res; !errors.Is(err, lost) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if p := e.Final().Positions[0]; p.Next != 3 || p.Done != nil {
			t.Errorf("final %+v", p)
		}
	})
}

// The drain would wait for an hour; the loss ends it at once, for handlers that heed their context and
// for those that don't.
func TestOwnershipThatIsLostInADrainEndsTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = 2 * time.Second
		for _, deaf := range []bool{false, true} {
			l := filled(10, 0)
			lost := errors.New("somebody else owns it")
			causes := make(chan error, 10)
			e := mustNew(t, Config{Inputs: l.input(), Concurrency: 1, DrainTimeout: time.Hour, AbandonAfter: grace, Handler: func(ctx context.Context, r *Record) error {
				if r.Offset < 3 {
					return nil
				}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				if deaf {
					time.Sleep(time.Minute)
				}
				return nil // too late to count
			}})
			ctx, cancel := context.WithCancelCause(t.Context())
			res := make(chan error, 1)
			go func() { res <- e.Run(ctx) }() // joined below
			synctest.Wait()
			e.Drain()
			rest(time.Second)
			began := time.Now()
			cancel(lost)
			err, took, want := <-res, time.Since(began), time.Duration(0)
			if deaf {
				want = grace
			}
			if took != want || !errors.Is(err, lost) {
				t.Errorf("deaf %t: Run ended with %v after %s; expected the loss after %s", deaf, err, took, want)
			}
			if cause := <-causes; !errors.Is(cause, lost) {
				t.Errorf("the handler was told %v; expected %v", cause, lost)
			}
			rest(time.Hour)
			if p := e.Final().Positions[0]; p.Next != 3 || p.Done != nil {
				t.Errorf("final %+v", p)
			}
		}
	})
}

func TestAHandlerThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1, 0)
		e := mustNew(t, Config{Inputs: l.input(), DrainTimeout: time.Second, AbandonAfter: 2 * time.Second, Handler: func(context.Context, *Record) error {
			time.Sleep(time.Hour)
			return nil
		}})
		res := make(chan error, 1)
		go func() { res <- e.Run(t.Context()) }() // joined below
		synctest.Wait()
		e.Drain()
		began := time.Now()
		var stuck *StuckError
		if err := <-res; !errors.As(err, &stuck) || stuck.Offset != 0 || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		rest(2 * time.Hour) // it comes back, and changes nothing
		if p := e.Final().Positions[0]; p.Next != 0 || p.Done != nil {
			t.Errorf("final %+v", p)
		}
	})
}

func TestAHungHandlerGivesTheUnitUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2000, 0)
		e := mustNew(t, Config{Inputs: l.input(), ProgressTimeout: 10 * time.Second, Handler: func(ctx context.Context, r *Record) error {
			if r.Offset == 1234 {
				<-ctx.Done()
			}
			return nil
		}})
		began := time.Now()
		err := e.Run(t.Context())
		var stuck *StuckError
		if !errors.As(err, &stuck) || stuck.Offset != 1234 || stuck.For != 10*time.Second || time.Since(began) > 10*time.Second+50*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if p := e.Final().Positions[0]; p.Next != 1234 || !slices.Equal(p.Done, []protocol.Range{{1235, 2000}}) {
			t.Errorf("final %+v", p)
		}
	})
}

func TestDamageStopsTheUnitAfterWhatCameBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(500, 5)
		l.fault = func(offset int64) error {
			if offset >= 500 {
				return &commitlog.CorruptError{Topic: "fake", Offset: offset, Resume: -1}
			}
			return nil
		}
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
			time.Sleep(time.Millisecond)
			if r.Offset == 99 {
				return errors.New("poison") // must not keep the damage from being told
			}
			return nil
		}})
		if err := e.Run(t.Context()); !errors.Is(err, fault.Corrupt) {
			t.Errorf("Run returned %v", err)
		}
		p := e.Final().Positions[0]
		if p.Next != 99 || !covers(e.Final().Positions, 498) || covers(e.Final().Positions, 500) {
			t.Errorf("final %+v", p)
		}
	})
}

func TestReadErrorsThatPassAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(10, 2)
		back := time.Now().Add(5 * time.Minute)
		l.fault = func(int64) error {
			if time.Now().Before(back) {
				return fault.Unavailable
			}
			return nil
		}
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(context.Context, *Record) error { return nil }})
		launch(t, e)
		rest(6 * time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 10 || l.reads > 40 {
			t.Errorf("progress %+v after %d reads", p, l.reads)
		}
	})
}

// A reader that is stuck must not look like one that has nothing to do.
func TestPeopleAreToldAgainOfAReadThatKeepsFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog()
		var out testlog.Buffer
		e := mustNew(t, Config{
			Inputs: l.input(), Handler: func(context.Context, *Record) error { return nil },
			Retry: Retry{Initial: time.Second, Max: time.Second}, Logger: out.Logger(),
		})
		launch(t, e)
		rest(time.Second)
		var broken atomic.Bool
		broken.Store(true)
		l.mu.Lock()
		l.fault = func(int64) error {
			if broken.Load() {
				return fmt.Errorf("%w: nothing comes", fault.Unavailable)
			}
			return nil
		}
		l.mu.Unlock()
		l.fill(1, 1)
		told := func() int { return strings.Count(out.String(), "reading failed") }
		for _, c := range []struct {
			after time.Duration
			lines int
		}{{2 * time.Second, 1}, {8 * time.Second, 1}, {10 * time.Second, 2}, {time.Minute, 3}, {5 * time.Minute, 4}, {20 * time.Minute, 8}} {
			if rest(c.after); told() != c.lines {
				t.Errorf("told %d times, expected %d: %s", told(), c.lines, out.String())
			}
		}
		if s := out.String(); !strings.Contains(s, "tries=1 ") || strings.Count(s, "tries=1 ") != 1 || !strings.Contains(s, "for=5m") || !strings.Contains(s, "nothing comes") {
			t.Errorf("the lines do not say how often and for how long: %s", s)
		}
		broken.Store(false)
		rest(time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 1 || strings.Count(out.String(), "reading works again") != 1 {
			t.Errorf("progress %+v: %s", p, out.String())
		}
	})
}

func TestATrimmedPositionFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		start   []protocol.Position
		trimmed bool // between the look at the bounds and the first read
		next    int64
		fails   bool
	}{
		{"below the first record", []protocol.Position{{Next: 5}}, false, 5, true},
		{"beyond the end", []protocol.Position{{Next: 500}}, false, 500, true},
		{"without a position it begins at the first record that is kept", nil, false, 100, false},
		{"and goes on there when that is trimmed before it is read", nil, true, 100, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := filled(100, 2)
				l.trim(20)
				want := 80
				if c.trimmed {
					want = 70
					l.fault = func(int64) error {
						l.first = 30
						return nil
					}
				}
				handled := 0
				e := mustNew(t, Config{Inputs: l.input(), Start: c.start, Concurrency: 1, Handler: func(context.Context, *Record) error {
					handled++
					return nil
				}})
				stop := launch(t, e)
				synctest.Wait()
				if p := e.Progress(); p.Positions[0].Next != c.next || c.start == nil && p.Version == 0 {
					t.Errorf("progress %+v", p)
				}
				if !c.fails && handled != want {
					t.Errorf("%d records were handled; expected %d", handled, want)
				}
				if err := stop(); errors.Is(err, fault.OutOfRange) != c.fails {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

func TestAPauseStartsNothingAndAResumeGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1000, 0)
		var handled atomic.Int32
		e := mustNew(t, Config{Inputs: l.input(), Concurrency: 2, Handler: func(context.Context, *Record) error {
			time.Sleep(time.Millisecond)
			handled.Add(1)
			return nil
		}})
		launch(t, e)
		rest(100*time.Millisecond + 500*time.Microsecond)
		e.Pause()
		rest(time.Hour)
		if n := handled.Load(); n != 202 || !e.stats().Paused {
			t.Errorf("%d were handled", n)
		}
		e.Resume()
		rest(time.Second)
		if n := handled.Load(); n != 1000 {
			t.Errorf("%d were handled at the end", n)
		}
	})
}

func TestADrainBeforeRunEndsItAtOnce(t *testing.T) {
	t.Parallel()
	l := newFakeLog()
	e := mustNew(t, Config{Inputs: l.input(), Start: []protocol.Position{{Next: 7}, {Storage: 3, Next: 9}}, Handler: func(context.Context, *Record) error { return nil }})
	e.Drain()
	if err := e.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if p := e.Final().Positions; len(p) != 2 || p[0].Next != 7 || p[1].Storage != 3 || p[1].Next != 9 {
		t.Errorf("positions are %+v", p)
	}
}

func TestASealedPartitionIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(10, 2)
		l.seal()
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(context.Context, *Record) error { return nil }})
		launch(t, e)
		rest(time.Hour)
		if p := e.Progress().Positions[0]; p.Next != 10 || l.reads > 5 {
			t.Errorf("progress %+v after %d reads", p, l.reads)
		}
	})
}
