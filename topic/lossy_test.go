package topic_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// lossyLog loses appends and answers, and answers late.
type lossyLog struct {
	driver.Log
	rand *rand.Rand
	mu   sync.Mutex
	loss int // percent
}

func (l *lossyLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	lt := &lossyTopic{Topic: t, log: l, answers: make(chan func(), 1<<16)}
	lt.all.Go(func() { // joined by Close
		for f := range lt.answers {
			f()
		}
	})
	return lt, nil
}

type lossyTopic struct {
	driver.Topic
	log     *lossyLog
	answers chan func()
	mu      sync.Mutex
	closed  bool
	all     sync.WaitGroup
}

func (t *lossyTopic) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		done(0, fault.Closed)
		return
	}
	t.log.mu.Lock()
	fate, pause := t.log.rand.IntN(100), t.log.rand.IntN(10) == 0
	loss := t.log.loss
	t.log.mu.Unlock()
	var first int64
	var err error
	if fate%3 != 0 || fate >= loss {
		t.Topic.Append(ctx, req, func(f int64, e error) { first, err = f, e }) // memlog answers at once
	} else if err = fault.NotDone; fate%2 == 0 {
		err = fault.Unknown
	}
	if fate < loss && fate%3 != 0 {
		err = fault.Unknown
	}
	t.answers <- func() {
		if pause {
			runtime.Gosched()
		}
		done(first, err)
	}
}

func (t *lossyTopic) Close() error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.answers)
	}
	t.mu.Unlock()
	t.all.Wait()
	return t.Topic.Close()
}

// A producer that sends what failed again, in order, has everything stored once and in order,
// whatever gets lost and whenever the topic is switched.
func TestNumberedMessagesSurviveLossesAndSwitches(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := &lossyLog{Log: memlog.NewStore(nil).Driver(), rand: rand.New(rand.NewPCG(seed, 1)), loss: 3} //nolint:gosec // a test
			c := topic.NewCatalog(commitlog.New(l), memregistry.NewStore().Open().Registry, "")
			create(t, c, "a", topic.Config{Partitions: 1})
			lossy(t, c, rand.New(rand.NewPCG(seed, 2)), seed%2 == 0) //nolint:gosec // a test
		})
	}
}

func lossy(t *testing.T, c *topic.Catalog, r *rand.Rand, all bool) {
	tp := open(t, c, "a")
	const numbers, keys = 600, 5
	acked := make([]bool, numbers)
	partitions := 1
	for base, rounds := 0, 0; base < numbers; rounds++ {
		if rounds > 20*numbers {
			t.Fatalf("stuck at sequence %d", base)
		}
		if r.IntN(12) == 0 && partitions < 32 {
			partitions *= 2
			n := partitions
			defer func() func() {
				done := make(chan struct{})
				go func() { // waited for at the end
					defer close(done)
					grow(t, c, "a", n)
				}()
				if r.IntN(2) == 0 {
					<-done
				}
				return func() { <-done }
			}()()
		}
		var acks sync.WaitGroup
		errs := make([]error, numbers)
		for n := base; n < min(base+1+r.IntN(100), numbers); n++ {
			if acked[n] && !all { // else its answer is taken for lost too
				continue
			}
			acks.Add(1)
			tp.ProduceAsync(t.Context(), topic.AnyPartition, rec(n%keys, n), sequence(7, int64(n)), func(_ topic.Position, err error) {
				acked[n], errs[n] = err == nil, err
				acks.Done()
			})
		}
		acks.Wait()
		for base < numbers && acked[base] {
			base++
		}
		for _, err := range errs {
			if err != nil && !errors.Is(err, fault.NotDone) && !errors.Is(err, fault.Unknown) && !errors.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
		}
	}
	if err := tp.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for k, got := range values(t, tp) {
		if len(got) != numbers/keys || !slices.IsSorted(got) {
			t.Errorf("%s: %d records, in order: %v: %v", k, len(got), slices.IsSorted(got), got)
		}
	}
}
