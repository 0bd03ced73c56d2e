package e2e_test

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
	"github.com/ringfence/ringfence/admin"
)

// owed has a handler's work done by somebody else, after it has returned.
type owed struct {
	mu     sync.Mutex
	atWork map[string]int
	most   int
	told   []error
}

// late makes a handler of one whose work takes so long.
func (o *owed) late(long time.Duration, h ringfence.Handler) ringfence.Handler {
	o.atWork = map[string]int{}
	return func(ctx context.Context, m *ringfence.Message) error {
		later := m.Later()
		o.mu.Lock()
		o.atWork[string(m.Key)]++
		o.most = max(o.most, len(o.atWork))
		o.mu.Unlock()
		go func() { // the subscription waits for its answer
			time.Sleep(long)
			err := h(ctx, m)
			o.mu.Lock()
			if o.atWork[string(m.Key)] > 1 {
				err = ringfence.Permanent(errors.New("two of a key were at work at once"))
			}
			delete(o.atWork, string(m.Key))
			o.mu.Unlock()
			told := later.Answer(err)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.told = append(o.told, told)
		}()
		return nil
	}
}

// All that a subscription does with what a handler returns, it does with what it answers later.
func TestASubscriptionTreatsAnAnswerThatComesLaterAsAReturn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]admin.SubscriptionConfig{
		"held":    {Retry: admin.Retry{Attempts: 4}},
		"parked":  {Retry: admin.Retry{Attempts: 4}, Hold: -1},
		"limited": {Retry: admin.Retry{Attempts: 4}, Hold: -1, Rate: 200, Concurrency: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rf := newSubscriptionOf(t, 1, c)
				produce(t, rf, "orders", 0, 120, 12)
				var d delivered
				var o owed
				h := d.handler(func(m *ringfence.Message) error {
					switch {
					case string(m.Value) == "4":
						return ringfence.Permanent(errors.New("poison"))
					case string(m.Value) == "5", string(m.Key) == "k6" && m.Attempt < 3:
						return errors.New("no")
					}
					return nil
				})
				stop := subscribe(t, rf, "billing", o.late(20*time.Millisecond, h))
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				for k := range 12 {
					want := every(120, 12, k)
					if k == 4 || k == 5 {
						want = nil
					}
					if got := d.of(fmt.Sprint("k", k)); !slices.Equal(got, want) {
						t.Errorf("key k%d: took %q; expected %q", k, got, want)
					}
				}
				if d.tries["4"] != 1 || d.tries["5"] != 4 || d.tries["6"] != 3 || d.tries["7"] != 1 {
					t.Errorf("4, 5, 6 and 7 were tried %d, %d, %d and %d times; expected 1, 4, 3 and 1", d.tries["4"], d.tries["5"], d.tries["6"], d.tries["7"])
				}
				if c.Concurrency > 0 && o.most != c.Concurrency {
					t.Errorf("%d were at work at once; expected %d", o.most, c.Concurrency)
				}
				d.cure()
				_, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil)
				must(t, err)
				time.Sleep(10 * time.Minute)
				for k := range 12 {
					if got, want := d.of(fmt.Sprint("k", k)), every(120, 12, k); !slices.Equal(got, want) {
						t.Errorf("after the redrive, key k%d: took %q; expected %q", k, got, want)
					}
				}
				stop()
				synctest.Wait() // who answered is told after that
				for _, err := range o.told {
					if err != nil {
						t.Errorf("an answer was refused: %v", err)
					}
				}
			})
		})
	}
}

// The turn of the shard set waits for what is out; what is not answered in time is delivered by those who go on.
func TestATurnWaitsForAnswersThatComeLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		long  time.Duration
		again bool
	}{"in time": {5 * time.Second, false}, "too late": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rf := newSubscriptionOf(t, 4, admin.SubscriptionConfig{})
				produce(t, rf, "orders", 0, 40, 20)
				var mu sync.Mutex
				tries, out, stale := map[string]int{}, map[string]bool{}, 0
				stop := subscribeWith(t, rf, "billing", func(_ context.Context, m *ringfence.Message) error {
					mu.Lock()
					defer mu.Unlock()
					key := string(m.Key)
					if tries[string(m.Value)]++; out[key] && !c.again {
						t.Errorf("%s was handed out while one of %s was out", m.Value, key)
					}
					if m.Value[0] == '3' || len(out) >= 4 || tries[string(m.Value)] > 1 {
						return nil
					}
					out[key] = true
					later := m.Later()
					time.AfterFunc(c.long, func() {
						mu.Lock()
						delete(out, key)
						mu.Unlock()
						if errors.Is(later.Answer(nil), ringfence.ErrFenced) {
							mu.Lock()
							defer mu.Unlock()
							stale++
						}
					})
					return nil
				}, &ringfence.SubscribeOptions{DrainTimeout: 10 * time.Second})
				time.Sleep(time.Second)
				_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 2, nil)
				must(t, err)
				time.Sleep(time.Minute)
				d, err := rf.Admin().GetSubscription(t.Context(), "billing")
				must(t, err)
				if d.Changing() || d.Set().Shards != 2 {
					t.Errorf("the turn is not over: %+v", d.Sets)
				}
				time.Sleep(2 * time.Hour)
				stop()
				mu.Lock()
				defer mu.Unlock()
				twice := 0
				for i := range 40 {
					switch n := tries[fmt.Sprint(i)]; {
					case n == 2:
						twice++
					case n != 1:
						t.Errorf("record %d was tried %d times", i, n)
					}
				}
				if c.again != (twice == 4) || !c.again && twice != 0 || c.again != (stale == 4) {
					t.Errorf("%d records came twice, and %d answers counted for nothing", twice, stale)
				}
			})
		})
	}
}

func TestLaterIsCalledWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rf := newTopic(t, 1)
		produce(t, rf, "orders", 0, 1, 1)
		came := make(chan *ringfence.Message, 1)
		c := consume(t, rf, "orders", "g", func(_ context.Context, m *ringfence.Message) error {
			came <- m
			return nil
		}, ringfence.ConsumeOptions{})
		m := <-came
		synctest.Wait()
		if err := m.Later().Answer(nil); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%v; expected ErrInvalid", err)
		}
		c.leave(t)
	})
}

// Who loses a partition is told so by the context, and by the answer.
func TestAnAnswerForALostPartitionCountsForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rf := newTopic(t, 1)
		produce(t, rf, "orders", 0, 1, 1)
		type out struct {
			ctx   context.Context
			later ringfence.Later
		}
		came := make(chan out, 2)
		c := consume(t, rf, "orders", "g", func(ctx context.Context, m *ringfence.Message) error {
			came <- out{ctx, m.Later()}
			return nil
		}, ringfence.ConsumeOptions{})
		first := <-came
		synctest.Wait() // the handler has returned
		_, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
		must(t, err)
		<-first.ctx.Done()
		if cause, err := context.Cause(first.ctx), first.later.Answer(nil); !errors.Is(cause, ringfence.ErrFenced) || !errors.Is(err, ringfence.ErrFenced) {
			t.Errorf("cause %v, answer %v; expected ErrFenced for both", cause, err)
		}
		second := <-came
		if err := first.later.Answer(nil); !errors.Is(err, ringfence.ErrConflict) {
			t.Errorf("a second answer of the first attempt: %v; expected ErrConflict", err)
		}
		if err := second.later.Answer(nil); err != nil {
			t.Error(err)
		}
		c.leave(t)
	})
}
