package consumer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// slow is a handler of batches that takes so long; it notes what it was called with, and when.
type slow struct {
	long  time.Duration
	mu    sync.Mutex
	began time.Time
	calls [][]int
	at    []time.Duration
}

func (h *slow) batches(size, atOnce int, wait time.Duration) *Batches[int] {
	h.began = time.Now()
	return &Batches[int]{Size: size, AtOnce: atOnce, Wait: wait, Calls: &Calls{}, Logger: slog.New(slog.DiscardHandler),
		Call: func(_ context.Context, items []int) []error {
			h.mu.Lock()
			h.calls, h.at = append(h.calls, slices.Clone(items)), append(h.at, time.Since(h.began))
			h.mu.Unlock()
			time.Sleep(h.long)
			return nil
		}}
}

func TestWhatWasCancelledWhileItWaitedIsInNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &slow{}
		b := h.batches(10, 1, 10*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var one, two dispatch.Record
		b.Add(t.Context(), &one, 1)
		b.Add(ctx, &two, 2)
		cancel()
		if err := two.Wait(t.Context(), nil, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("the one that was cancelled: %v", err)
		}
		if err := one.Wait(t.Context(), nil, 0); err != nil || len(h.calls) != 1 || !slices.Equal(h.calls[0], []int{1}) {
			t.Errorf("the other: %v; calls %v", err, h.calls)
		}
		b.Calls.Join()
	})
}

func TestTheTimeBehindACallCountsAsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &slow{long: 8 * time.Second}
		b := h.batches(10, 1, 10*time.Second)
		var one, two dispatch.Record
		b.Add(t.Context(), &one, 1)
		time.Sleep(11 * time.Second) // its call has begun after 10 s
		b.Add(t.Context(), &two, 2)
		if err := errors.Join(one.Wait(t.Context(), nil, 0), two.Wait(t.Context(), nil, 0)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(h.at, []time.Duration{10 * time.Second, 21 * time.Second}) {
			t.Errorf("called after %v; expected 10 s and 21 s, as none waits longer than 10 s for others", h.at)
		}
		b.Calls.Join()
	})
}

func TestAsManyCallsBeginAsThereAreFullBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &slow{long: time.Hour}
		b := h.batches(2, 3, time.Minute)
		records := make([]dispatch.Record, 6)
		b.mu.Lock() // they come before anybody gathers
		for i := range records {
			l := dispatch.NewLater(&records[i])
			records[i].AnswerLater(l)
			b.waiting = append(b.waiting, item[int]{t.Context(), i, time.Now(), l})
		}
		b.begin()
		b.mu.Unlock()
		for i := range records {
			if err := records[i].Wait(t.Context(), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(h.began); took != time.Hour || len(h.calls) != 3 {
			t.Errorf("%d calls in %s; expected three at once", len(h.calls), took)
		}
		b.Calls.Join()
	})
}

// Whoever cancels an attempt waits for it, so a batch does not wait for others behind that, and its call hears of it.
func TestACancelledAttemptEndsTheWaitAndTheCallOfItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &slow{}
		b := h.batches(10, 1, 10*time.Second)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var one dispatch.Record
		b.Add(ctx, &one, 1)
		if err := one.Wait(t.Context(), nil, 0); !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %s; expected it as soon as it was cancelled", err, time.Since(began))
		}
		b.Calls.Join()

		other, cancel := context.WithCancel(t.Context())
		both, stop := together([]item[int]{{ctx: t.Context()}, {ctx: other}})
		defer stop()
		cancel()
		if synctest.Wait(); both.Err() == nil {
			t.Error("the second attempt of a batch was cancelled, and its call goes on")
		}
	})
}

// One more may come when a batch is full and was not taken yet. That fills no other batch.
func TestOneBatchThatWasFullMakesNoOtherFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &slow{}
		b := h.batches(2, 2, 10*time.Second)
		b.gathering, b.calls, b.full = true, 1, make(chan struct{}, 1) // whose wait has just ended
		var records [3]dispatch.Record
		b.Add(t.Context(), &records[0], 0)
		b.Add(t.Context(), &records[1], 1)
		if batch, _ := b.take(); len(batch) != 2 {
			t.Fatalf("a batch of %d; expected 2", len(batch))
		}
		b.Add(t.Context(), &records[2], 2)
		if err := records[2].Wait(t.Context(), nil, 0); err != nil || time.Since(h.began) != 10*time.Second {
			t.Errorf("called after %s, %v; expected 10 s, as it waits for others", time.Since(h.began), err)
		}
		b.Calls.Join()
	})
}

// Who waits for others waits until there are as many as a call takes, and no longer.
func TestABatchThatGetsFullIsCalledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &slow{}
		b := h.batches(2, 1, time.Minute)
		var one, two dispatch.Record
		b.Add(t.Context(), &one, 1)
		time.Sleep(time.Second)
		b.Add(t.Context(), &two, 2)
		if err := errors.Join(one.Wait(t.Context(), nil, 0), two.Wait(t.Context(), nil, 0)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(h.at, []time.Duration{time.Second}) {
			t.Errorf("called after %v; expected 1 s, when there were two", h.at)
		}
		b.Calls.Join()
	})
}
