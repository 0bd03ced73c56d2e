package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type final struct{}

func (final) Error() string   { return "never" }
func (final) Permanent() bool { return true }

type later struct{ time.Duration }

func (later) Error() string               { return "later" }
func (l later) RetryAfter() time.Duration { return l.Duration }

// heldBy runs n records of so many keys, of which those of k0 fail with err, and lists what was given
// away as "offset why attempts".
func heldBy(t *testing.T, n, keys int, seal bool, err error, c Config) []string {
	t.Helper()
	l := filled(n, keys)
	if seal {
		l.seal()
	}
	var mu sync.Mutex
	var given []string
	c.Inputs = l.input()
	c.Handler = func(_ context.Context, r *Record) error {
		mu.Lock()
		defer mu.Unlock()
		if string(r.Key) == "k0" && len(given) == 0 {
			return err
		}
		return nil
	}
	c.OnHeld = func(_ context.Context, r *Record, h Held) error {
		mu.Lock()
		defer mu.Unlock()
		given = append(given, fmt.Sprintf("%d %s %d", r.Offset, h.Why, h.Attempts))
		return nil
	}
	e := mustNew(t, c)
	stop := launch(t, e)
	rest(10 * time.Minute)
	if p := e.Progress().Positions[0]; p.Next != int64(n) {
		t.Errorf("progress %+v; expected all to be finished", p)
	}
	drain(t, e, stop)
	return given
}

func TestAFailingRecordIsGivenAwayForOneReason(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		records int
		seal    bool
		err     error
		config  Config
		want    string
	}{
		{"permanent", 6, false, fmt.Errorf("wrapped: %w", final{}), Config{}, "0 permanent 1"},
		{"attempts", 6, false, boom, Config{Retry: Retry{MaxAttempts: 4}}, "0 attempts 4"},
		{"at once", 6, false, boom, Config{Retry: Retry{HoldFor: -1}}, "0 hold 1"},
		{"hold", 6, false, later{time.Second}, Config{Retry: Retry{HoldFor: 5500 * time.Millisecond}}, "0 hold 6"},
		{"later", 6, false, later{time.Minute}, Config{Retry: Retry{HoldFor: 5 * time.Second}}, "0 hold 1"},
		{"end", 6, true, later{time.Hour}, Config{}, "0 end 1"},
		{"bound", 300, false, later{time.Hour}, Config{MaxInFlight: 64}, "0 bound 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if got := heldBy(t, c.records, 3, c.seal, c.err, c.config); !slices.Equal(got, []string{c.want}) {
					t.Errorf("given away: %q; want %q", got, c.want)
				}
			})
		})
	}
}

// The pauses of a policy are for whoever the handler talks to: a log that was away for a moment is asked again
// soon, as a record is kept by nobody until it is taken.
func TestWhoCouldNotTakeARecordIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1, 1)
		began := time.Now()
		var asked []time.Duration
		e := mustNew(t, Config{
			Inputs:  l.input(),
			Handler: func(context.Context, *Record) error { return errors.New("boom") },
			Retry:   Retry{Initial: 24 * time.Hour, Max: 24 * time.Hour, HoldFor: -1}, OnHeld: func(context.Context, *Record, Held) error {
				if asked = append(asked, time.Since(began)); len(asked) < 20 {
					return errors.New("the log is away")
				}
				return nil
			},
		})
		stop := launch(t, e)
		rest(10 * time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 1 {
			t.Errorf("progress %+v; expected the record to be taken", p)
		}
		drain(t, e, stop)
		if len(asked) != 20 || asked[1] > 100*time.Millisecond || asked[19]-asked[18] < 5*time.Second {
			t.Errorf("asked at %v; expected 20 times, with pauses from 100 ms at most to 10 s", asked)
		}
	})
}
