package pipe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
)

func TestTallyLetsExactlyTheMaximumThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var calls, failures atomic.Int64
		ta := NewTally(func(_ context.Context, m *ringfence.Message) error {
			calls.Add(1)
			time.Sleep(time.Millisecond)
			if m.Offset%3 == 0 && m.Attempt == 1 {
				failures.Add(1)
				return errors.New("once")
			}
			return nil
		}, 10, stop)
		var workers sync.WaitGroup
		var done atomic.Int64
		for w := range 8 {
			workers.Go(func() {
				for i := range int64(5) {
					m := &ringfence.Message{Partition: w, Offset: i}
					for m.Attempt = 1; ctx.Err() == nil; m.Attempt++ {
						if ta.Handle(ctx, m) == nil {
							done.Add(1)
							break
						}
					}
				}
			})
		}
		workers.Wait()
		if done.Load() != 10 || calls.Load() != 10+failures.Load() || ta.Processed() != 10 {
			t.Errorf("%d processed in %d calls with %d failures; expected 10 and no call more", done.Load(), calls.Load(), failures.Load())
		}
	})
}

func TestTallyIsIdleOnlyWithNothingRunningOrFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fail := errors.New("fails")
		ta := NewTally(func(_ context.Context, m *ringfence.Message) error {
			time.Sleep(10 * time.Second)
			if m.Attempt == 1 {
				return fail
			}
			return nil
		}, 0, nil)
		began := time.Now()
		idle := make(chan time.Duration, 1)
		go ta.Watch(t.Context(), 2*time.Second, func() { idle <- time.Since(began) }) // ends after it told
		time.Sleep(time.Second)
		m := &ringfence.Message{Attempt: 1}
		_ = ta.Handle(t.Context(), m)
		time.Sleep(30 * time.Second) // its backoff
		m.Attempt = 2
		if err := ta.Handle(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if after := <-idle; after != (1+10+30+10+2)*time.Second {
			t.Errorf("idle after %s; expected 53s", after)
		}
	})
}

func TestTallyIsIdleOnlyWithAPartitionOrWhenNoneCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct{ joins, idle time.Duration }{
			"a slow store": {4 * time.Second, 4300 * time.Millisecond},
			"none comes":   {time.Hour, gathering + 300*time.Millisecond},
		} {
			ta := NewTally(nil, 0, nil)
			began := time.Now()
			joining := time.AfterFunc(c.joins, ta.Owns)
			ta.Watch(t.Context(), 300*time.Millisecond, func() {})
			joining.Stop()
			if took := time.Since(began); took != c.idle {
				t.Errorf("%s: idle after %s; expected %s", name, took, c.idle)
			}
		}
	})
}

func TestTallyForgetsTheFailuresOfAPartitionThatWentAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ta := NewTally(func(context.Context, *ringfence.Message) error { return errors.New("fails") }, 0, nil)
		ta.Owns()
		_ = ta.Handle(t.Context(), &ringfence.Message{Partition: 3})
		time.Sleep(time.Minute)
		if ta.idleFor() != 0 {
			t.Error("idle while a record waits for its next try")
		}
		ta.Forget(3)
		if ta.idleFor() < time.Minute {
			t.Error("not idle though the failing record is another's now")
		}
	})
}

func TestSinkWritesWholeLinesAndAnswersAfterTheWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &slowWriter{}
		s := NewSink(w, func(error) {})
		var writers sync.WaitGroup
		for range 50 {
			writers.Go(func() {
				for range 20 {
					if err := s.Write(t.Context(), []byte("0123456789\n")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		s.Close()
		if w.bytes != 50*20*11 || w.writes >= 1000 {
			t.Errorf("%d bytes in %d writes; expected 11,000 in fewer than 1,000", w.bytes, w.writes)
		}
	})
}

type slowWriter struct{ bytes, writes int }

func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	w.bytes += len(p)
	w.writes++
	return len(p), nil
}

func TestSinkTellsOnceThatItsReaderIsGone(t *testing.T) {
	t.Parallel()
	var told []error
	s := NewSink(&brokenPipe{room: 5}, func(err error) { told = append(told, err) })
	for i := range 4 {
		if err := s.Write(t.Context(), []byte("abc\n")); (err == nil) != (i == 0) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	s.Close()
	if len(told) != 1 {
		t.Errorf("told %v; expected one error", told)
	}
}
