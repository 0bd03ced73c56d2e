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

type noAttemptError struct{ error }

func (noAttemptError) Uncounted() (time.Duration, bool) { return 0, true }

// What counts for nothing leaves a record as it was: it is the first attempt again, no record of its key
// passes it, and nobody is asked to take it over.
func TestAnAttemptThatDoesNotCountLeavesTheRecordAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(40, 4)
		var mu sync.Mutex
		tries, taken := map[int64]int{}, map[string][]int64{}
		e := mustNew(t, Config{
			Inputs: l.input(), Concurrency: 3,
			Handler: func(_ context.Context, r *Record) error {
				mu.Lock()
				defer mu.Unlock()
				if r.Attempt != 1 {
					t.Errorf("attempt %d at %d", r.Attempt, r.Offset)
				}
				if tries[r.Offset]++; tries[r.Offset] < 20 && r.Offset < 8 {
					return noAttemptError{errors.New("down")}
				}
				taken[string(r.Key)] = append(taken[string(r.Key)], r.Offset)
				return nil
			},
			Retry: Retry{MaxAttempts: 1, HoldFor: -1}, OnHeld: func(_ context.Context, r *Record, _ Held) error {
				t.Errorf("%d is given away", r.Offset)
				return nil
			},
		})
		launch(t, e)
		rest(time.Minute)
		for k := range 4 {
			if got := taken[fmt.Sprintf("k%d", k)]; len(got) != 10 || !slices.IsSorted(got) {
				t.Errorf("of k%d: %v", k, got)
			}
		}
		if s := e.stats(); s.Failed != 0 {
			t.Errorf("%d attempts failed", s.Failed)
		}
	})
}

// One whose turn comes again after it was to be held is given away as one that failed, with what counted of it.
func TestARecordThatIsSparedForLongerThanItIsHeldIsGivenAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1, 1)
		var tries int
		var given []Held
		began := time.Now()
		e := mustNew(t, Config{
			Inputs:  l.input(),
			Handler: func(context.Context, *Record) error { tries++; return pausedError{errors.New("down")} },
			Retry:   Retry{MaxAttempts: 1, HoldFor: 5 * time.Second}, OnHeld: func(_ context.Context, _ *Record, h Held) error {
				given = append(given, h)
				return nil
			},
		})
		launch(t, e)
		rest(time.Minute)
		if len(given) != 1 || tries != 3 {
			t.Fatalf("%d attempts, given away: %v; expected 3, and one", tries, given)
		}
		if h := given[0]; h.Attempts != 0 || h.Why != HeldLong || !h.Since.Equal(began) || h.Next.Sub(began) != 6*time.Second {
			t.Errorf("%+v", h)
		}
	})
}

type pausedError struct{ error }

func (pausedError) Uncounted() (time.Duration, bool) { return 2 * time.Second, true }

// It counts on as before when it had failed already, and an error of OnHeld is never one.
func TestAnAttemptThatDoesNotCountKeepsTheFailuresOfBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(1, 1)
		var tries []int
		var asked []time.Time
		e := mustNew(t, Config{
			Inputs: l.input(),
			Handler: func(_ context.Context, r *Record) error {
				if tries = append(tries, r.Attempt); len(tries) == 2 || len(tries) == 3 {
					return noAttemptError{errors.New("down")}
				}
				return errors.New("no")
			},
			Retry: Retry{MaxAttempts: 3}, OnHeld: func(context.Context, *Record, Held) error {
				if asked = append(asked, time.Now()); len(asked) == 1 {
					return noAttemptError{errors.New("down")}
				}
				return nil
			},
		})
		launch(t, e)
		rest(time.Minute)
		if want := []int{1, 2, 2, 2, 3}; !slices.Equal(tries, want) || len(asked) != 2 || asked[1].Sub(asked[0]) < 50*time.Millisecond {
			t.Errorf("attempts %v, asked at %v; expected %v, and twice, with a pause", tries, asked, want)
		}
	})
}

// An engine that is paused before it has read anything tries one record each time, of another key.
func TestOfAPausedEngineOneRecordIsTriedAtATimeOfAnotherKeyEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2000, 4)
		var mu sync.Mutex
		var all []string
		down := true
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, fmt.Sprint(r.Offset))
			if down {
				return noAttemptError{errors.New("down")}
			}
			return nil
		}})
		tried := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		e.Pause()
		launch(t, e)
		rest(time.Hour)
		if e.TryOne() || len(tried()) > 0 {
			t.Errorf("nothing was read, and %v were tried", tried())
		}
		rest(time.Second)
		read := e.stats().InFlight
		for range 6 {
			if !e.TryOne() {
				t.Error("there is nothing to try")
			}
			rest(time.Second)
		}
		if want := []string{"0", "1", "2", "3", "0", "1"}; !slices.Equal(tried(), want) || read == 0 || e.stats().InFlight != read {
			t.Errorf("tried %v; expected %v; read %d and then %d", tried(), want, read, e.stats().InFlight)
		}
		mu.Lock()
		down = false
		mu.Unlock()
		if e.Resume(); e.TryOne() {
			t.Error("one is tried of an engine that is not paused")
		}
		rest(time.Second)
		if n := len(tried()); n != 2006 {
			t.Errorf("%d were tried in the end", n)
		}
	})
}
