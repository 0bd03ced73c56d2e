package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// failing is a handler that fails the records of k0, and notes when each attempt at one was made.
type failing struct {
	mu    sync.Mutex
	began time.Time
	tries []string
	err   error
	done  bool
}

func (f *failing) handle(_ context.Context, r *Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(r.Key) != "k0" || f.done {
		return nil
	}
	f.tries = append(f.tries, fmt.Sprintf("%d/%d at %s", r.Offset, r.Attempt, time.Since(f.began)))
	return f.err
}

// An engine that starts where another one ended, whatever ended that, knows what failed, for how long,
// and when it is tried next.
func TestAHeldRecordGoesOnFailingWhereAnotherEngineLeftIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(9, 3)
		f := &failing{began: time.Now(), err: later{10 * time.Second}}
		var given []string
		hold := func(_ context.Context, r *Record, h Held) error {
			given = append(given, fmt.Sprintf("%d %s %d since %s: %v", r.Offset, h.Why, h.Attempts, h.Since.Sub(f.began), h.Err))
			return nil
		}
		first := mustNew(t, Config{Inputs: l.input(), Handler: f.handle, Retry: Retry{MaxAttempts: 5}, OnHeld: hold})
		stop := launch(t, first)
		rest(15 * time.Second)
		was := first.Version()
		rest(10 * time.Second) // attempts 1, 2 and 3; the next is due 30 s after the start
		if first.Version() == was {
			t.Error("nobody would store what failed")
		}
		_ = stop() // as a crash does
		at := first.Progress().Positions
		began := f.began.UnixMilli()
		want := protocol.Failing{Offset: 0, Attempts: 3, Since: began, Due: began + 30_000, Pause: 10_000}
		if len(at[0].Failing) != 1 || at[0].Failing[0] != want {
			t.Fatalf("failing: %+v; want %+v", at[0].Failing, want)
		}
		at[0].Done = nil // too many to be stored, perhaps
		second := mustNew(t, Config{Inputs: l.input(), Start: at, Handler: f.handle, Retry: Retry{MaxAttempts: 5}, OnHeld: hold})
		stop = launch(t, second)
		rest(time.Second)
		if got := second.Progress().Positions[0].Failing; !slices.Equal(got, at[0].Failing) {
			t.Errorf("after a second: %+v", got)
		}
		rest(time.Minute)
		drain(t, second, stop)
		tries := []string{"0/1 at 0s", "0/2 at 10s", "0/3 at 20s", "0/4 at 30s", "0/5 at 40s", "3/1 at 40s", "3/2 at 50s", "3/3 at 1m0s", "3/4 at 1m10s", "3/5 at 1m20s", "6/1 at 1m20s"}
		if !slices.Equal(f.tries, tries) {
			t.Errorf("attempts: %q", f.tries)
		}
		if want := []string{"0 attempts 5 since 0s: later", "3 attempts 5 since 40s: later"}; !slices.Equal(given, want) {
			t.Errorf("given away: %q", given)
		}
		if got := second.Progress().Positions[0].Failing; len(got) != 1 || got[0].Offset != 6 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// Whoever held a record before could have been interrupted between deciding to give it away and doing so.
func TestARecalledRecordIsHeldNoLongerThanAnother(t *testing.T) {
	t.Parallel()
	const pause = int64(24 * 60 * 60 * 1000)
	for name, c := range map[string]struct {
		hold  time.Duration
		due   time.Duration // from the start
		given string
		tries []string
	}{
		"never held":          {-1, 24 * time.Hour, "0 hold 2 next 24h0m0s at 0s", []string{"1/1 at 0s"}},
		"beyond":              {5 * time.Second, time.Minute, "0 hold 2 next 1m0s at 0s", []string{"1/1 at 0s"}},
		"within":              {time.Hour, time.Minute, "", []string{"0/3 at 1m0s", "1/1 at 1m0s"}},
		"its time has come":   {-1, -time.Second, "", []string{"0/3 at 0s", "1/1 at 0s"}},
		"held without an end": {0, time.Minute, "", []string{"0/3 at 1m0s", "1/1 at 1m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := filled(2, 1)
				f := &failing{began: time.Now()}
				given := ""
				start := []protocol.Position{{Failing: []protocol.Failing{{
					Offset: 0, Attempts: 2, Since: f.began.Add(-time.Second).UnixMilli(), Due: f.began.Add(c.due).UnixMilli(), Pause: pause,
				}}}}
				e := mustNew(t, Config{Inputs: l.input(), Start: start, Handler: f.handle, Retry: Retry{HoldFor: c.hold}, OnHeld: func(_ context.Context, r *Record, h Held) error {
					given += fmt.Sprintf("%d %s %d next %s at %s", r.Offset, h.Why, h.Attempts, h.Next.Sub(f.began), time.Since(f.began))
					return nil
				}})
				stop := launch(t, e)
				rest(2 * time.Minute)
				drain(t, e, stop)
				if given != c.given || !slices.Equal(f.tries, c.tries) {
					t.Errorf("given away %q, attempts %q; expected %q and %q", given, f.tries, c.given, c.tries)
				}
			})
		})
	}
}

// What was stored by a clock that was ahead makes nobody wait for longer than its pause.
func TestAStoredTimeIsBoundByItsPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 1)
		f := &failing{began: time.Now()}
		year := f.began.Add(365 * 24 * time.Hour).UnixMilli()
		start := []protocol.Position{{Failing: []protocol.Failing{{Offset: 0, Attempts: 2, Since: year, Due: year, Pause: 7000}}}}
		e := mustNew(t, Config{Inputs: l.input(), Start: start, Handler: f.handle, OnHeld: func(context.Context, *Record, Held) error { return nil }})
		stop := launch(t, e)
		rest(time.Minute)
		drain(t, e, stop)
		if want := []string{"0/3 at 7s", "1/1 at 7s"}; !slices.Equal(f.tries, want) {
			t.Errorf("attempts: %q; want %q", f.tries, want)
		}
	})
}

// A pause that was stored goes on by the clock that nobody sets.
func TestAStoredPauseIsNoLongerWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	l := newFakeLog()
	e := mustNew(t, Config{Inputs: l.input(), Handler: (&failing{}).handle, OnHeld: func(context.Context, *Record, Held) error { return nil }})
	for _, due := range []time.Duration{-time.Hour, time.Second, time.Hour} {
		in, n := &input{}, &node{}
		in.tracker.recalled = []protocol.Failing{{Attempts: 1, Due: time.Now().Add(due).UnixMilli(), Pause: 5000}}
		if e.recall(in, n); n.fail == nil || !strings.Contains(n.fail.due.String(), " m=") {
			t.Errorf("one that is due in %s: %+v; expected a time of the monotonic clock", due, n.fail)
		}
	}
}

// What no policy knows may be stored: whoever wrote it, nobody waits for years, and another attempt counts.
func TestWhatIsStoredIsBoundByThePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 1)
		const last = 1 << 53
		start := []protocol.Position{{Failing: []protocol.Failing{{Offset: 0, Attempts: protocol.MaxAttempts, Since: last, Due: last, Pause: last}}}}
		for _, most := range []int{0, 3} {
			f := &failing{began: time.Now()}
			e := mustNew(t, Config{Inputs: l.input(), Start: start, Handler: f.handle, Retry: Retry{MaxAttempts: most}, OnHeld: func(context.Context, *Record, Held) error { return nil }})
			stop := launch(t, e)
			rest(25 * time.Hour)
			drain(t, e, stop)
			attempt := protocol.MaxAttempts
			if most > 0 {
				attempt = most + 1
			}
			if want := []string{fmt.Sprintf("0/%d at 24h0m0s", attempt), "1/1 at 24h0m0s"}; !slices.Equal(f.tries, want) {
				t.Errorf("at most %d attempts: %q; want %q", most, f.tries, want)
			}
		}
	})
}

func TestAnErrorAsksForNoMoreThanTheLongestPause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ longest, asked, want time.Duration }{
		{time.Minute, time.Hour, time.Hour},
		{time.Minute, 25 * time.Hour, 24 * time.Hour},
		{72 * time.Hour, 25 * time.Hour, 25 * time.Hour},
		{72 * time.Hour, 1 << 62, 72 * time.Hour},
	} {
		if r := (Retry{Initial: 1, Max: c.longest}); r.pauseAfter(1, later{c.asked}) != c.want {
			t.Errorf("of %s, at most %s: %s; want %s", c.asked, c.longest, r.pauseAfter(1, later{c.asked}), c.want)
		}
	}
}

// Finished ranges may be too many to be stored: then others of the key come first again.
func TestAHeldRecordWaitsForItsTimeBehindOneThatIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(9, 3)
		f := &failing{began: time.Now()}
		due := f.began.Add(10 * time.Second).UnixMilli()
		start := []protocol.Position{{Failing: []protocol.Failing{{Offset: 3, Attempts: 2, Since: 1, Due: due, Pause: 20_000}}}}
		e := mustNew(t, Config{Inputs: l.input(), Start: start, Handler: f.handle, OnHeld: func(context.Context, *Record, Held) error { return nil }})
		stop := launch(t, e)
		rest(time.Minute)
		drain(t, e, stop)
		if want := []string{"0/1 at 0s", "3/3 at 10s", "6/1 at 10s"}; !slices.Equal(f.tries, want) {
			t.Errorf("attempts: %q; want %q", f.tries, want)
		}
	})
}

// A record that another engine held, and that takes too much room here, is given away with what is known.
func TestAHeldRecordOfAnotherEngineIsGivenAwayWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 1)
		l.seal()
		far := time.Now().Add(time.Hour).UnixMilli()
		start := []protocol.Position{{Failing: []protocol.Failing{{Offset: 0, Attempts: 2, Since: 7, Due: far, Pause: 3_600_000}}}}
		var given []Held
		f := &failing{began: time.Now()}
		e := mustNew(t, Config{Inputs: l.input(), Start: start, Handler: f.handle, OnHeld: func(_ context.Context, _ *Record, h Held) error {
			given = append(given, h)
			return nil
		}})
		stop := launch(t, e)
		rest(time.Minute)
		drain(t, e, stop)
		if len(given) != 1 || given[0].Attempts != 2 || given[0].Since.UnixMilli() != 7 || !errors.Is(given[0].Err, ErrEarlier) || given[0].Why != AtTheEnd {
			t.Errorf("given away: %+v", given)
		}
	})
}

// A record that is given up goes with its last answer. When nobody took that, an heir asks for it again.
func TestTheLastAttemptCountsWhenItsRecordIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err  error
			want []string
			kept int
		}{
			{later{time.Second}, []string{"0/1 at 0s", "0/2 at 1s", "0/3 at 2s", "0/3 at 1m0s"}, 2},
			{final{}, []string{"0/1 at 0s", "0/1 at 1m0s"}, 0},
		} {
			l := filled(1, 1)
			f := &failing{began: time.Now(), err: c.err}
			down := true
			var given []int
			cfg := Config{Inputs: l.input(), Handler: f.handle, Retry: Retry{MaxAttempts: 3}, OnHeld: func(_ context.Context, _ *Record, h Held) error {
				if down {
					return errors.New("the journal is down")
				}
				given = append(given, h.Attempts)
				return nil
			}}
			e := mustNew(t, cfg)
			stop := launch(t, e)
			rest(time.Minute)
			_ = stop()
			cfg.Start, down = e.Progress().Positions, false
			if got := cfg.Start[0].Failing; len(got) != min(c.kept, 1) || c.kept > 0 && got[0].Attempts != c.kept {
				t.Errorf("%v: stored is %+v", c.err, got)
			}
			e = mustNew(t, cfg)
			stop = launch(t, e)
			rest(time.Minute)
			drain(t, e, stop)
			if !slices.Equal(f.tries, c.want) || len(given) != 1 || given[0] != c.kept+1 {
				t.Errorf("%v: attempts %q, given away after %v", c.err, f.tries, given)
			}
		}
	})
}

func TestAHeldRecordIsNotClaimedWithTheOneBeforeIt(t *testing.T) {
	t.Parallel()
	var s schedule
	nodes := []*node{{keyed: true}, {keyed: true, fail: &failure{due: time.Now().Add(time.Hour)}}, {keyed: true}}
	for _, n := range nodes {
		s.add(n)
	}
	if got := s.take(nil, 8, false); len(got) != 1 || got[0] != nodes[0] {
		t.Errorf("%d records are claimed", len(got))
	}
	if s.finish(nodes[0]); len(s.retries) != 1 || s.ready != 0 {
		t.Errorf("%d wait for their time, %d are ready", len(s.retries), s.ready)
	}
}

func TestFailingRecordsAreBoundInNumber(t *testing.T) {
	t.Parallel()
	tr := tracker{}
	tr.begin(protocol.Position{})
	for i := range int64(6) {
		n := &node{rec: Record{}, fail: &failure{attempts: int(i)%3 + 1}}
		n.rec.Offset = i
		tr.add(n, i+1)
		tr.failing++
	}
	tr.recalled = []protocol.Failing{{Offset: 8, Attempts: 9}, {Offset: 9, Attempts: 1}}
	var got []string
	for _, f := range tr.failed(4) {
		got = append(got, fmt.Sprintf("%d/%d", f.Offset, f.Attempts))
	}
	if want := []string{"1/2", "2/3", "5/3", "8/9"}; !slices.Equal(got, want) {
		t.Errorf("%q; want those that failed most, in order: %q", got, want)
	}
}
