package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// lates has the answers that a handler owes, by offset.
type lates struct {
	mu  sync.Mutex
	all map[int64]*Later
	ctx map[int64]context.Context
	seq []int64 // offsets, as they came
}

func (s *lates) handle(ctx context.Context, r *Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all, s.ctx = map[int64]*Later{}, map[int64]context.Context{}
	}
	l := NewLater(r)
	s.all[r.Offset], s.ctx[r.Offset] = l, ctx
	s.seq = append(s.seq, r.Offset)
	r.AnswerLater(l)
	return nil
}

func (s *lates) of(offset int64) *Later {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[offset]
}

func (s *lates) context(offset int64) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx[offset]
}

func (s *lates) came() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seq)
}

// owing starts an engine whose handler owes the answers for n records of so many keys.
func owing(t *testing.T, n, keys int, c Config) (s *lates, e *Engine, run func() error) {
	t.Helper()
	l := filled(n, keys)
	s = &lates{}
	c.Inputs = l.input()
	if c.Handler == nil {
		c.Handler = s.handle
	}
	e = mustNew(t, c)
	stop := launch(t, e)
	synctest.Wait()
	return s, e, stop
}

func TestARecordThatIsOutHoldsItsKeyAndNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e, stop := owing(t, 40, 10, Config{Concurrency: 8})
		if st := e.stats(); st.Running != 0 || st.Out != 8 || !slices.Equal(s.came(), []int64{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Fatalf("came %v, %+v; expected the first 8 records to be out, as many as handlers may be at work", s.came(), st)
		}
		rest(time.Minute)
		if st := e.stats(); st.Longest != time.Minute {
			t.Errorf("the longest is at work for %s; expected a minute", st.Longest)
		}
		for i := range 3 {
			if err := s.of(int64(i)).Answer(nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := s.came()[8:]; !slices.Equal(got, []int64{8, 9, 10}) {
			t.Errorf("then came %v; expected 8 and 9, and 10, which was behind 0", got)
		}
		if p := e.Progress().Positions[0]; p.Next != 3 {
			t.Errorf("progress %+v; expected the three that were answered", p)
		}
		e.Limit(2)
		for _, offset := range []int64{3, 4, 5, 6, 7, 8, 9} {
			if err := s.of(offset).Answer(nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if st := e.stats(); st.Out != 2 {
			t.Errorf("%d are out with a limit of 2", st.Out)
		}
		_ = stop()
	})
}

func TestAnAnswerThatComesLaterIsTreatedAsAReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given []string
		var mu sync.Mutex
		s, e, stop := owing(t, 3, 0, Config{Retry: Retry{MaxAttempts: 3}, OnHeld: func(_ context.Context, r *Record, h Held) error {
			mu.Lock()
			defer mu.Unlock()
			given = append(given, fmt.Sprintf("%d %s %d", r.Offset, h.Why, h.Attempts))
			return nil
		}})
		for offset, err := range []error{final{}, later{time.Hour}, errors.New("no")} {
			if err := s.of(int64(offset)).Answer(err); err != nil {
				t.Fatal(err)
			}
		}
		rest(time.Second)
		if got, want := s.came(), []int64{0, 1, 2, 2}; len(got) < 3 || !slices.Equal(got[3:], want[3:]) {
			t.Errorf("came %v; expected 2 again", got)
		}
		old := s.of(1)
		rest(time.Hour)
		if got := s.came(); len(got) != 5 || got[4] != 1 {
			t.Errorf("came %v; expected 1 once more after an hour", got)
		}
		if err := old.Answer(nil); !errors.Is(err, fault.Conflict) {
			t.Errorf("the answer of an earlier attempt: %v; expected ErrConflict", err)
		}
		if p := e.Progress().Positions[0]; p.Next != 1 || p.Done != nil {
			t.Errorf("progress %+v; expected 0, which was given away", p)
		}
		if !slices.Equal(given, []string{"0 permanent 1"}) {
			t.Errorf("given away: %q", given)
		}
		_ = stop()
	})
}

// Whoever takes a failing record over may answer later too.
func TestWhoTakesARecordOverMayAnswerLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taken := &lates{}
		_, e, stop := owing(t, 1, 0, Config{
			Handler: func(context.Context, *Record) error { return final{} },
			OnHeld:  func(ctx context.Context, r *Record, _ Held) error { return taken.handle(ctx, r) },
		})
		if err := taken.of(0).Answer(errors.New("not now")); err != nil {
			t.Fatal(err)
		}
		rest(time.Second)
		if got := taken.came(); len(got) != 2 || e.Progress().Positions[0].Next != 0 {
			t.Fatalf("it was asked %d times; expected twice, as the first answer was an error", len(got))
		}
		if err := taken.of(0).Answer(nil); err != nil || e.Progress().Positions[0].Next != 1 {
			t.Errorf("%v, progress %+v", err, e.Progress().Positions)
		}
		_ = stop()
	})
}

// What a handler says itself counts: an error, a panic, or the end of its goroutine.
func TestAHandlerThatFailsOwesNoAnswer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"error": func() error { return errors.New("no") },
		"panic": func() error { panic("no") },
		"exit":  func() error { runtime.Goexit(); return nil },
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &lates{}
					_, e, stop := owing(t, 1, 0, Config{Handler: func(ctx context.Context, r *Record) error {
						_ = s.handle(ctx, r)
						if len(s.came()) > 1 {
							return nil
						}
						if early {
							if err := s.of(0).Answer(nil); err != nil {
								t.Error(err)
							}
						}
						return end()
					}})
					first := s.of(0)
					if err := first.Answer(nil); !errors.Is(err, fault.Conflict) || e.stats().Out != 0 || e.Progress().Positions[0].Next != 0 {
						t.Errorf("the answer was taken as %v, %+v; expected ErrConflict, and nothing to be done", err, e.stats())
					}
					rest(time.Second)
					if err := s.of(0).Answer(nil); err != nil || e.Progress().Positions[0].Next != 1 {
						t.Errorf("the next attempt: %v, %+v", err, e.Progress().Positions)
					}
					_ = stop()
				})
			})
		}
	}
}

func TestADrainWaitsForRecordsThatAreOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e, _ := owing(t, 4, 2, Config{DrainTimeout: time.Minute})
		e.Drain()
		rest(time.Second)
		for offset := range int64(2) {
			select {
			case <-e.gone:
				t.Fatal("the drain was over before the answers came")
			default:
			}
			if err := s.of(offset).Answer(nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		select {
		case <-e.gone:
		default:
			t.Fatal("the drain is not over though all answers came")
		}
		if p := e.Final().Positions[0]; p.Next != 2 || len(s.came()) != 2 {
			t.Errorf("final %+v, came %v; expected what was out to be done, and nothing else to begin", p, s.came())
		}
	})
}

// Answers that come out of order leave ranges between them, of which progress has room for so many. Where half of
// that is taken, the record that fails below them is given away.
func TestAnswersOutOfOrderMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given []int64
		s, e, stop := owing(t, 10, 10, Config{Concurrency: 10, MaxRanges: 4, Retry: Retry{Initial: 24 * time.Hour, Max: 24 * time.Hour, HoldFor: 96 * time.Hour}, OnHeld: func(_ context.Context, r *Record, h Held) error {
			if h.Why != Crowded {
				t.Errorf("%d is given away as %v; expected %v", r.Offset, h.Why, Crowded)
			}
			given = append(given, r.Offset)
			return nil
		}})
		if err := s.of(0).Answer(errors.New("boom")); err != nil {
			t.Fatal(err)
		}
		for offset := int64(2); offset < 8; offset += 2 {
			synctest.Wait()
			if len(given) != 0 {
				t.Errorf("%d is given away before the answer for %d, and there is room", given, offset)
			}
			if err := s.of(offset).Answer(nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if !slices.Equal(given, []int64{0}) {
			t.Errorf("given away: %d; expected the record that fails", given)
		}
		for offset := int64(1); offset < 10; offset++ {
			_ = s.of(offset).Answer(nil) // some have one
		}
		drain(t, e, stop)
	})
}

// Those who answer and the workers meet at every step that there is.
func TestAnswersThatMeetTheReturnOfTheHandlerCountOnce(t *testing.T) {
	t.Parallel()
	const records = 4_000
	l := filled(records, 100)
	var refused, handled atomic.Int64
	var answering sync.WaitGroup
	e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
		handled.Add(1)
		owed := NewLater(r)
		r.AnswerLater(owed)
		for range 2 {
			answering.Go(func() {
				if err := owed.Answer(nil); errors.Is(err, fault.Conflict) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}})
	stop := launch(t, e)
	for len(e.Progress().Positions) == 0 || e.Progress().Positions[0].Next < records {
		runtime.Gosched()
	}
	_ = stop()
	answering.Wait()
	if handled.Load() != records || refused.Load() != records || e.stats().Out != 0 {
		t.Errorf("%d records were handled and %d answers refused, of %d each; %+v", handled.Load(), refused.Load(), records, e.stats())
	}
}

// What others than the handler make of its answer happens once, inner ones first, and before the engine has it.
func TestAnswersPassThroughThoseAroundTheHandler(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after", "waited for"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var owed *Later
				var seen []string
				first := errors.New("first")
				_, e, stop := owing(t, 1, 0, Config{Handler: func(ctx context.Context, r *Record) error {
					if owed != nil {
						return nil
					}
					owed = NewLater(r)
					r.AnswerLater(owed)
					for _, who := range []string{"inner", "outer"} {
						r.Then(func(err error) error {
							seen = append(seen, who)
							return fmt.Errorf("%s: %w", who, err)
						})
					}
					switch when {
					case "before":
						_ = owed.Answer(first)
					case "waited for":
						go func() { _ = owed.Answer(first) }()
						return r.Wait(ctx, nil, time.Second)
					}
					return nil
				}})
				if when == "after" {
					if err := owed.Answer(first); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if f := e.failing(); len(f) != 1 || !strings.HasSuffix(f[0], " outer: inner: first") || !slices.Equal(seen, []string{"inner", "outer"}) {
					t.Errorf("seen by %q, failing %q", seen, f)
				}
				_ = stop()
			})
		})
	}
}

func TestWhoWaitsForAnAnswerWaitsALittleLongerThanItsContext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer time.Duration
		want   error
		told   error
	}{
		{500 * time.Millisecond, nil, nil},
		{1500 * time.Millisecond, nil, fault.Fenced},
		{3 * time.Second, context.Canceled, fault.Fenced},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, cancel)
			var r Record
			owed := NewLater(&r)
			r.AnswerLater(owed)
			var told error
			time.AfterFunc(c.answer, func() { told = owed.Answer(nil) })
			if err := r.Wait(ctx, nil, time.Second); !errors.Is(err, c.want) {
				t.Errorf("answered after %s: %v; expected %v", c.answer, err, c.want)
			}
			rest(time.Minute)
			if !errors.Is(told, c.told) {
				t.Errorf("answered after %s, it was told %v; expected %v", c.answer, told, c.told)
			}
		})
	}
}

// Who is at work on a record reads it all the time, so nobody moves it to other memory.
func TestARecordThatIsOutStaysWhereItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(5000, 0)
		var first *Record
		s := &lates{}
		e := mustNew(t, Config{Inputs: l.input(), MaxBytes: 8 << 10, Handler: func(ctx context.Context, r *Record) error {
			if r.Offset == 0 {
				first = r
				return s.handle(ctx, r)
			}
			return nil
		}})
		launch(t, e)
		synctest.Wait()
		if p := e.Progress().Positions[0]; len(p.Done) != 1 || p.Done[0][1] != 5000 {
			t.Fatalf("progress %+v; expected all but the first to be done", p)
		}
		if &first.Value[0] != &l.recs[0].Value[0] {
			t.Error("it was moved while it was out")
		}
		if err := s.of(0).Answer(nil); err != nil {
			t.Error(err)
		}
	})
}

// Workers claim several records whose handlers answer later, and together send out no more than may be at work.
func TestNoMoreRecordsAreOutThanHandlersMayBeAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2000, 0)
		var atWork, most atomic.Int64
		e := mustNew(t, Config{Inputs: l.input(), Concurrency: 16, Handler: func(_ context.Context, r *Record) error {
			if n := atWork.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(100 * time.Microsecond)
			owed := NewLater(r)
			r.AnswerLater(owed)
			time.AfterFunc(5*time.Millisecond, func() {
				atWork.Add(-1)
				_ = owed.Answer(nil)
			})
			return nil
		}})
		e.pace = newPace(16, 4)
		launch(t, e)
		rest(time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 2000 || most.Load() != 16 {
			t.Errorf("progress %+v, %d at work at once; expected 16", p, most.Load())
		}
	})
}

// The handler that began to owe an answer first may be the last to return: it is the one that is out the longest.
func TestTheOldestAnswerIsMissedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 2)
		s := &lates{}
		e := mustNew(t, Config{Inputs: l.input(), Concurrency: 2, ProgressTimeout: 10 * time.Second, Handler: func(ctx context.Context, r *Record) error {
			time.Sleep(time.Duration(r.Offset) * time.Second)
			_ = s.handle(ctx, r)
			if r.Offset == 0 {
				time.Sleep(5 * time.Second)
			}
			return nil
		}})
		go func() {
			time.Sleep(9 * time.Second)
			<-s.context(0).Done()
			_, _ = s.of(0).Answer(nil), s.of(1).Answer(nil)
		}()
		began := time.Now()
		var stuck *StuckError
		if err := e.Run(t.Context()); !errors.As(err, &stuck) || stuck.Offset != 0 || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %s; expected the first one after 10 s", err, time.Since(began))
		}
	})
}

// An error is the answer, also for who waits for one: what comes later is told so.
func TestWhoWaitedForAnErrorTakesNoOtherAnswer(t *testing.T) {
	t.Parallel()
	var r Record
	owed, failed := NewLater(&r), errors.New("no")
	r.AnswerLater(owed)
	if err := r.Wait(t.Context(), failed, time.Second); !errors.Is(err, failed) {
		t.Errorf("%v; expected what the handler returned", err)
	}
	if err := owed.Answer(nil); !errors.Is(err, fault.Conflict) {
		t.Errorf("an answer behind that: %v; expected ErrConflict", err)
	}
}
