package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// batched notes what a handler of batches was given and what it took.
type batched struct {
	mu      sync.Mutex
	sizes   []int
	taken   map[string][]string // values by key, in order
	tries   map[string]int
	twice   []string // keys that were in one batch twice
	running int
	most    int
}

func (b *batched) handler(long time.Duration, fails func(m *ringfence.Message, try int) error) ringfence.BatchHandler {
	b.taken, b.tries = map[string][]string{}, map[string]int{}
	return func(_ context.Context, ms []*ringfence.Message) []error {
		b.mu.Lock()
		b.sizes = append(b.sizes, len(ms))
		b.running++
		b.most = max(b.most, b.running)
		b.mu.Unlock()
		time.Sleep(long)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.running--
		errs := make([]error, len(ms))
		seen := map[string]bool{}
		for i, m := range ms {
			key, value := string(m.Key), string(m.Value)
			if seen[key] {
				b.twice = append(b.twice, key)
			}
			seen[key] = true
			b.tries[value]++
			if fails != nil {
				errs[i] = fails(m, b.tries[value])
			}
			if errs[i] == nil {
				b.taken[key] = append(b.taken[key], value)
			}
		}
		return errs
	}
}

func (b *batched) check(t *testing.T, n, keys int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.twice) > 0 {
		t.Errorf("keys %q were in one batch twice", b.twice)
	}
	for k := range keys {
		if got, want := b.taken[fmt.Sprint("k", k)], every(n, keys, k); !slices.Equal(got, want) {
			t.Errorf("key k%d: took %q; expected %q", k, got, want)
		}
	}
}

// batches runs SubscribeBatch of the subscription s over n records of so many keys until it is stopped.
func batches(t *testing.T, n, keys int, c admin.SubscriptionConfig, h ringfence.BatchHandler, opts *ringfence.SubscribeOptions) (rf *ringfence.Client, stop func() error) {
	t.Helper()
	rf = newStores().open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	c.Topic = "orders"
	_, err := rf.Admin().CreateSubscription(t.Context(), "s", c)
	must(t, err)
	for i := range n {
		_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: fmt.Append(nil, "k", i%keys), Value: fmt.Append(nil, i)})
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func(rf *ringfence.Client) { over <- rf.SubscribeBatch(ctx, "s", h, opts) }(rf)
	return rf, func() error {
		cancel()
		return <-over
	}
}

// What fails in a batch is tried again, and those behind it of its key wait; all others are done.
func TestABatchIsDoneButForWhatFailsInIt(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{"held": 0, "parked": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &batched{}
				h := b.handler(10*time.Millisecond, func(m *ringfence.Message, try int) error {
					if string(m.Key) == "k3" && try < 3 {
						return errors.New("not yet")
					}
					return nil
				})
				_, stop := batches(t, 200, 20, admin.SubscriptionConfig{Hold: hold}, h, &ringfence.SubscribeOptions{BatchSize: 16})
				time.Sleep(10 * time.Minute)
				must(t, stop())
				b.check(t, 200, 20)
				if b.tries["0"] != 1 || b.tries["3"] != 3 || b.most != 1 {
					t.Errorf("record 0 was tried %d times, record 3 %d times, in %d calls at once; expected 1, 3 and 1", b.tries["0"], b.tries["3"], b.most)
				}
				if slices.Max(b.sizes) != 16 {
					t.Errorf("batches of %d; expected some of 16, and none larger", b.sizes)
				}
			})
		})
	}
}

func TestATurnWaitsForNoFullBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 2, admin.SubscriptionConfig{})
		produce(t, rf, "orders", 0, 3, 3)
		b := &batched{}
		h := b.handler(0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { // joined below
			over <- rf.SubscribeBatch(ctx, "billing", h, &ringfence.SubscribeOptions{BatchSize: 10, BatchWait: time.Minute, DrainTimeout: time.Hour})
		}()
		time.Sleep(time.Second)
		_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 1, nil)
		must(t, err)
		time.Sleep(5 * time.Second)
		b.check(t, 3, 3)
		if d, err := rf.Admin().GetSubscription(t.Context(), "billing"); err != nil || d.Changing() {
			t.Errorf("the turn is not over after 5 s: %v", err)
		}
		cancel()
		must(t, <-over)
	})
}

// Whatever a handler of batches does wrong makes all of the batch fail, and loses nothing.
func TestABatchWhoseHandlerFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]func() []error{
		"panic":        func() []error { panic("no") },
		"exit":         func() []error { runtime.Goexit(); return nil },
		"wrong number": func() []error { return []error{nil} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &batched{}
				h := b.handler(0, nil)
				var mu sync.Mutex
				calls := 0
				_, stop := batches(t, 40, 20, admin.SubscriptionConfig{}, func(ctx context.Context, ms []*ringfence.Message) []error {
					mu.Lock()
					calls++
					again := calls > 3 || len(ms) == 1
					mu.Unlock()
					if !again {
						return wrong()
					}
					return h(ctx, ms)
				}, &ringfence.SubscribeOptions{BatchSize: 10, BatchWait: time.Second})
				time.Sleep(time.Minute)
				must(t, stop())
				b.check(t, 40, 20)
			})
		})
	}
}

// A batch that is at work when its unit is lost has its context cancelled, whatever it holds, and is handled again.
func TestABatchIsCancelledWhenItsPartitionIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rf := newTopic(t, 1)
		produce(t, rf, "orders", 0, 10, 10)
		var mu sync.Mutex
		var causes []error
		seen := 0
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { // joined below
			over <- rf.ConsumeBatch(ctx, "orders", "g", func(ctx context.Context, ms []*ringfence.Message) []error {
				mu.Lock()
				first := seen < 10
				seen += len(ms)
				mu.Unlock()
				if first {
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					causes = append(causes, context.Cause(ctx))
				}
				return nil
			}, &ringfence.ConsumeOptions{BatchSize: 10, BatchWait: time.Second})
		}()
		time.Sleep(10 * time.Second)
		_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
		must(t, err)
		time.Sleep(10 * time.Second)
		cancel()
		must(t, <-over)
		if seen != 20 || len(causes) != 1 || !errors.Is(causes[0], ringfence.ErrFenced) {
			t.Errorf("%d messages came, causes %v; expected all ten twice, and ErrFenced", seen, causes)
		}
	})
}

func TestOptionsOfBatchesAreChecked(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{})
	h := func(context.Context, []*ringfence.Message) []error { return nil }
	one := func(context.Context, *ringfence.Message) error { return nil }
	for name, o := range map[string]ringfence.SubscribeOptions{
		"negative": {BatchSize: -1}, "large": {BatchSize: 5000}, "many": {BatchSize: 100, Concurrency: 100}, "wait": {BatchWait: time.Hour}, "overflow": {BatchSize: 8000, Concurrency: 1 << 62},
	} {
		if err := rf.SubscribeBatch(t.Context(), "billing", h, &o); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%s: %v; expected ErrInvalid", name, err)
		}
		c := ringfence.ConsumeOptions{BatchSize: o.BatchSize, BatchWait: o.BatchWait, Concurrency: o.Concurrency}
		if err := rf.ConsumeBatch(t.Context(), "orders", "g", h, &c); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%s: %v; expected ErrInvalid", name, err)
		}
	}
	for name, err := range map[string]error{
		"Subscribe":      rf.Subscribe(t.Context(), "billing", one, &ringfence.SubscribeOptions{BatchSize: 10}),
		"Consume":        rf.Consume(t.Context(), "orders", "g", one, &ringfence.ConsumeOptions{BatchWait: time.Second}),
		"transactional":  rf.ConsumeBatch(t.Context(), "orders", "g", h, &ringfence.ConsumeOptions{Transactional: true}),
		"no handler":     rf.ConsumeBatch(t.Context(), "orders", "g", nil, nil),
		"no handler sub": rf.SubscribeBatch(t.Context(), "billing", nil, nil),
	} {
		if !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%s: %v; expected ErrInvalid", name, err)
		}
	}
}
