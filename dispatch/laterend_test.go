package dispatch

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// Who gives a record up says so to those whose business its answer is. One of them may answer another record
// upon that: what that came to is told once.
func TestAnAnswerThatIsGivenAmidTheEndIsConcludedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &lates{}
		var told [2][]error
		_, e, stop := owing(t, 2, 2, Config{DrainTimeout: time.Second, AbandonAfter: time.Second, Handler: func(ctx context.Context, r *Record) error {
			_ = s.handle(ctx, r)
			offset := r.Offset
			r.Then(func(err error) error {
				told[offset] = append(told[offset], err)
				if offset == 0 {
					_ = s.of(1).Answer(nil)
				}
				return err
			})
			return nil
		}})
		e.Drain()
		rest(3 * time.Second)
		var stuck *StuckError
		if err := stop(); !errors.As(err, &stuck) {
			t.Errorf("%v; expected a StuckError", err)
		}
		if len(told[0]) != 1 || !errors.Is(told[0][0], fault.Fenced) {
			t.Errorf("of a record without an answer it is told %v; expected ErrFenced", told[0])
		}
		if len(told[1]) != 1 || told[1][0] != nil {
			t.Errorf("of the one that was answered meanwhile it is told %v; expected its answer, once", told[1])
		}
	})
}

// Who asks for an answer when the handler has returned gets none, and who was so close that nobody has seen that he
// has one is told when he gives it.
func TestAnAnswerThatNobodyTakesIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var owed [2]*Later
		var stale *Record
		at := func(r *Record) Attempt { return Attempt{r.Storage, r.Partition, r.Offset, r.Attempt} }
		_, e, stop := owing(t, 3, 3, Config{Handler: func(ctx context.Context, r *Record) error {
			switch r.Offset {
			case 0:
				owed[0] = r.Owe(at(r))
				r.late = nil // as the worker would have found it a moment before
			case 1:
				if owed[1] = r.Owe(at(r)); r.Owe(at(r)) != owed[1] {
					t.Error("two answers of one attempt")
				}
				if err := owed[1].Answer(nil); err != nil {
					t.Errorf("an answer before the handler has returned: %v", err)
				}
			case 2:
				stale = r
				time.Sleep(time.Minute)
			}
			return nil
		}})
		if err := owed[0].Answer(errors.New("no")); !errors.Is(err, fault.Invalid) {
			t.Errorf("an answer that nobody takes: %v; expected ErrInvalid", err)
		}
		for _, other := range []Attempt{{Offset: 1, Number: 1}, {Offset: 2, Number: 2}, {Partition: 1, Offset: 2, Number: 1}} {
			if stale.Owe(other) != nil {
				t.Errorf("there is an answer for %+v, at which nobody is", other)
			}
		}
		rest(2 * time.Minute)
		drain(t, e, stop)
		if p := e.Final().Positions[0]; p.Next != 3 {
			t.Errorf("final %+v", p)
		}
	})
}

// A handler that outlasts its engine may leave an answer behind, which nobody waits for any more: what holds places
// for it has these again all the same.
func TestAHandlerThatOutlastsItsEngineOwesNothing(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(){"returns": func() {}, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &lates{}
				var told []error
				_, e, stop := owing(t, 3, 3, Config{Concurrency: 4, DrainTimeout: time.Second, AbandonAfter: time.Second, Handler: func(ctx context.Context, r *Record) error {
					if r.Offset != 1 {
						time.Sleep(time.Hour)
						hang()
						return nil
					}
					time.Sleep(time.Minute) // deaf
					_ = s.handle(ctx, r)
					r.Then(func(err error) error {
						told = append(told, err)
						return err
					})
					return nil
				}})
				e.Drain()
				rest(3 * time.Second)
				var stuck *StuckError
				if err := stop(); !errors.As(err, &stuck) {
					t.Errorf("%v; expected a StuckError", err)
				}
				rest(time.Minute)
				if len(told) != 1 || !errors.Is(told[0], fault.Fenced) {
					t.Errorf("those whose business it is are told %v; expected ErrFenced, once", told)
				}
				if err := s.of(1).Answer(nil); !errors.Is(err, fault.Fenced) || len(told) != 1 {
					t.Errorf("an answer after that: %v, and they are told %v", err, told)
				}
				rest(2 * time.Hour)
			})
		})
	}
}

// A drain that takes too long cancels them; one that is answered then still counts, and one that is not
// is left behind.
func TestADrainLeavesRecordsBehindThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e, stop := owing(t, 2, 2, Config{DrainTimeout: time.Second, AbandonAfter: 2 * time.Second})
		began := time.Now()
		e.Drain()
		<-s.context(0).Done()
		if cause := context.Cause(s.context(0)); time.Since(began) != time.Second || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("cancelled after %s: %v", time.Since(began), cause)
		}
		if err := s.of(1).Answer(nil); err != nil {
			t.Error(err)
		}
		rest(2 * time.Second)
		var stuck *StuckError
		if err := stop(); !errors.As(err, &stuck) || stuck.Offset != 0 || !stuck.Out || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s; expected a StuckError for 0 after 3 s", err, time.Since(began))
		}
		if err := s.of(0).Answer(nil); !errors.Is(err, fault.Fenced) {
			t.Errorf("an answer after that: %v; expected ErrFenced", err)
		}
		if p := e.Final().Positions[0]; p.Next != 0 || !slices.Equal(p.Done, []protocol.Range{{1, 2}}) {
			t.Errorf("final %+v", p)
		}
	})
}

func TestARecordThatIsOutForTooLongGivesTheUnitUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(300, 0)
		s := &lates{}
		e := mustNew(t, Config{Inputs: l.input(), ProgressTimeout: 10 * time.Second, Handler: func(ctx context.Context, r *Record) error {
			if r.Offset != 123 {
				return nil
			}
			time.Sleep(time.Second)
			_ = s.handle(ctx, r)
			time.Sleep(time.Second) // the answer is owed from the line before on
			return nil
		}})
		began := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			<-s.context(123).Done()
			_ = s.of(123).Answer(nil)
		}()
		err := e.Run(t.Context())
		var stuck *StuckError
		if !errors.As(err, &stuck) || stuck.Offset != 123 || stuck.For != 10*time.Second || !stuck.Out || time.Since(began) != 11*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if p := e.Final().Positions[0]; p.Next != 123 || !slices.Equal(p.Done, []protocol.Range{{124, 300}}) {
			t.Errorf("final %+v", p)
		}
	})
}

func TestALostUnitCancelsRecordsThatAreOutAndTellsWhoAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(2, 2)
		s := &lates{}
		e := mustNew(t, Config{Inputs: l.input(), Handler: s.handle})
		ctx, cancel := context.WithCancelCause(t.Context())
		res := make(chan error, 1)
		go func() { res <- e.Run(ctx) }() // joined below
		synctest.Wait()
		cancel(fault.Fenced)
		if !errors.Is(context.Cause(s.context(0)), fault.Fenced) {
			t.Errorf("cause %v", context.Cause(s.context(0)))
		}
		for offset := range int64(2) {
			if err := s.of(offset).Answer(nil); !errors.Is(err, fault.Fenced) {
				t.Errorf("the answer for %d: %v; expected ErrFenced", offset, err)
			}
		}
		began := time.Now()
		if err := <-res; !errors.Is(err, fault.Fenced) || time.Since(began) != 0 {
			t.Errorf("%v after %s; expected the end at once, as nothing is out any more", err, time.Since(began))
		}
		if p := e.Final().Positions[0]; p.Next != 0 || p.Done != nil {
			t.Errorf("final %+v", p)
		}
	})
}

// The handler is still at work, or slow to return, when its unit is lost: whoever answers hears of that.
func TestAnAnswerBeforeTheReturnOfALostHandlerIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(3, 0)
		s, told := &lates{}, make([]error, 3)
		ctx, cancel := context.WithCancelCause(t.Context())
		e := mustNew(t, Config{Inputs: l.input(), Concurrency: 3, Handler: func(hctx context.Context, r *Record) error {
			_ = s.handle(hctx, r)
			switch r.Offset {
			case 0: // it is nobody else's yet
				told[0] = s.of(0).Answer(nil)
			case 1:
				<-hctx.Done()
				told[1] = s.of(1).Answer(nil)
			case 2: // as others do that work on it
				<-hctx.Done()
				told[2] = s.of(2).Answer(errors.New("no"))
			}
			return nil
		}})
		res := make(chan error, 1)
		go func() { res <- e.Run(ctx) }() // joined below
		rest(time.Second)                 // until all three are at work
		cancel(fault.Fenced)
		if err := <-res; !errors.Is(err, fault.Fenced) {
			t.Error(err)
		}
		if told[0] != nil || !errors.Is(told[1], fault.Fenced) || !errors.Is(told[2], fault.Fenced) {
			t.Errorf("the answers were taken as %v; expected that of 0 to count, and ErrFenced for the others", told)
		}
		if p := e.Final().Positions[0]; p.Next != 1 || p.Done != nil {
			t.Errorf("final %+v; expected 0 to be done, and nothing else", p)
		}
	})
}

// A worker that has claimed several records accounts for them together: one may be answered in the call of the next.
func TestAnAnswerBehindTheReturnAndBeforeItIsAccountedForCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of the two below: there may be more than one worker
		var before *Later
		answered := 0
		_, e, stop := owing(t, 8, 0, Config{Concurrency: 8, Handler: func(_ context.Context, r *Record) error {
			owed := NewLater(r)
			r.AnswerLater(owed)
			mu.Lock()
			defer mu.Unlock()
			if before != nil { // of the record before it, in the same claim
				answered++
				if err := before.Answer(nil); err != nil {
					t.Error(err)
				}
			}
			before = owed
			return nil
		}})
		synctest.Wait()
		if err := before.Answer(nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if p := e.Progress().Positions; answered != 7 || len(p) == 0 || p[0].Next != 8 || e.stats().Out != 0 {
			t.Errorf("%d were answered in the next call, and progress is %+v, with %d out; expected all of 8", answered, p, e.stats().Out)
		}
		_ = stop()
	})
}

// Who answers as the handler returns hears what became of that: the answer counts, or the error is the answer, or
// the unit is lost, or nobody knew of it.
func TestAnAnswerThatCrossesTheReturnIsToldWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(*Later)
		want      error
	}{
		"it is taken":       {func(l *Later) { l.handedTo(func(error) error { return nil }) }, nil},
		"an error":          {func(l *Later) { l.end(errSaid) }, errSaid},
		"a lost unit":       {func(l *Later) { l.end(errLost) }, errLost},
		"nobody knew of it": {func(*Later) {}, errLate},
	} {
		var l *Later
		l = &Later{atWork: func(Attempt) bool {
			c.meanwhile(l)
			return false
		}}
		for _, again := range []bool{false, true} {
			want := c.want
			if again && want == nil {
				want = errTwice
			}
			if err := l.Answer(nil); !errors.Is(err, want) {
				t.Errorf("%s, again %t: %v; expected %v", name, again, err, want)
			}
		}
	}
}

// A worker is at its last record until that is accounted for, and at none that was taken back.
func TestAWorkerIsAtTheRecordThatItHandledLast(t *testing.T) {
	t.Parallel()
	e := &Engine{}
	w := &worker{busy: true, limit: 2}
	for offset := range int64(3) {
		n := &node{}
		n.rec.Offset, n.rec.Attempt = offset, 1
		w.batch = append(w.batch, n)
	}
	e.workers = []*worker{w}
	for cursor, want := range []int64{0, 0, 1, 1, 1} { // at 0 it is about to begin, from 3 on it has ended
		w.cursor.Store(int64(cursor))
		for offset := range int64(3) {
			if at := e.isAt(Attempt{Offset: offset, Number: 1}); at != (offset == want) {
				t.Errorf("cursor %d: it is at %d: %t", cursor, offset, at)
			}
		}
	}
}

// Who has kept the record of an earlier attempt may ask while the next one is at work. The one after that owes nothing
// for it.
func TestAnAnswerAskedOfAnEarlierAttemptIsNotOwedByALaterOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var kept *Record
		var owed *Later
		_, e, stop := owing(t, 1, 1, Config{Retry: Retry{Initial: time.Second, Max: time.Second}, Handler: func(_ context.Context, r *Record) error {
			switch r.Attempt {
			case 1:
				kept = r
			case 2:
				owed = kept.Owe(Attempt{r.Storage, r.Partition, r.Offset, r.Attempt})
			default:
				return nil
			}
			return errors.New("no")
		}})
		rest(time.Minute)
		if p := e.Progress().Positions; len(p) == 0 || p[0].Next != 1 {
			t.Errorf("progress %+v, with %d out; expected the record to be done", p, e.stats().Out)
			_ = owed.Answer(nil) // or it would not end
		}
		drain(t, e, stop)
	})
}
