package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/group/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustNew(t *testing.T, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// launch runs e until the returned stop is called, which returns what Run returned. The end of the test drains e.
func launch(t *testing.T, e *Engine) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	res := make(chan error, 1)
	go func() { res <- e.Run(ctx) }() // joined by stop
	stop = sync.OnceValue(func() error {
		cancel()
		return <-res
	})
	t.Cleanup(func() {
		if ctx.Err() == nil {
			drain(t, e, stop)
		}
	})
	return stop
}

// rest lets fake time pass and everything that it wakes happen.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func drain(t *testing.T, e *Engine, stop func() error) {
	t.Helper()
	e.Drain()
	<-e.gone
	if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestEveryRecordIsHandledInOrderOfItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(5000, 17)
		var mu sync.Mutex
		got := map[string][]int64{}
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(_ context.Context, r *Record) error {
			mu.Lock()
			defer mu.Unlock()
			got[string(r.Key)] = append(got[string(r.Key)], r.Offset)
			return nil
		}})
		stop := launch(t, e)
		synctest.Wait()
		if p := e.Progress().Positions[0]; p.Next != 5000 || p.Done != nil {
			t.Errorf("progress %+v", p)
		}
		drain(t, e, stop)
		total := 0
		for key, offsets := range got {
			total += len(offsets)
			if !slices.IsSorted(offsets) {
				t.Errorf("key %s out of order: %v", key, offsets[:20])
			}
		}
		if total != 5000 {
			t.Errorf("%d of 5000 records were handled", total)
		}
	})
}

func TestASlowRecordHoldsBackOnlyItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(20000, 100)
		e := mustNew(t, Config{Inputs: l.input(), Handler: func(ctx context.Context, r *Record) error {
			if r.Offset == 7007 {
				time.Sleep(time.Hour)
			}
			return nil
		}})
		launch(t, e)
		rest(time.Second)
		p := e.Progress().Positions[0]
		// The slow one and its followers, one in a hundred, are unfinished; all others are not.
		if p.Next != 7007 || len(p.Done) == 0 || p.Done[0] != (protocol.Range{7008, 7107}) {
			t.Errorf("next %d, done %v", p.Next, p.Done[:min(3, len(p.Done))])
		}
		if s := e.stats(); s.InFlight != 130 || s.Running != 1 || s.Oldest != 1000+7007 || s.Longest < 900*time.Millisecond {
			t.Errorf("stats %+v", s)
		}
		rest(time.Hour)
		if p := e.Progress().Positions[0]; p.Next != 20000 || p.Done != nil {
			t.Errorf("at the end %+v", p)
		}
	})
}
