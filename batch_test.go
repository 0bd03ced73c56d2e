package ringfence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
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
func batches(t *testing.T, n, keys int, c ringfence.SubscriptionConfig, h ringfence.BatchHandler, opts *ringfence.SubscribeOptions) (rf *ringfence.Client, stop func() error) {
	t.Helper()
	rf = newStores().open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	c.Topic = "orders"
	_, err := rf.EnsureSubscription(t.Context(), "s", c)
	must(t, err)
	for i := range n {
		_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: fmt.Append(nil, "k", i%keys), Value: fmt.Append(nil, i)})
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- rf.SubscribeBatch(ctx, "s", h, opts) }()
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
				_, stop := batches(t, 200, 20, ringfence.SubscriptionConfig{Hold: hold}, h, &ringfence.SubscribeOptions{BatchSize: 16})
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
