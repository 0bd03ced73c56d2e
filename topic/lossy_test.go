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

// Producers that send again what has no answer, and are started anew at any time, have everything
// stored once and in order, whatever gets lost and whenever the topic is switched.
func TestNumberedMessagesSurviveLossesStartsAndSwitches(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := &lossyLog{Log: memlog.NewStore(nil).Driver(), rand: rand.New(rand.NewPCG(seed, 1)), loss: 3} //nolint:gosec // a test
			c := topic.NewCatalog(commitlog.New(l), memregistry.NewStore().Open().Registry, "")
			create(t, c, "a", topic.Config{Partitions: 1})
			lossy(t, c, rand.New(rand.NewPCG(seed, 2))) //nolint:gosec // a test
		})
	}
}

// numbering is what a producer of one key keeps over its starts.
type numbering struct {
	id          uint64
	home        int
	base, acked int // its numbers begin behind base; all up to acked were acknowledged
}

// window sends the next n numbers of a key, and takes down what is acknowledged.
func (k *numbering) window(t *testing.T, tp *topic.Topic, key, n int) (sealed bool) {
	var acks sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		acks.Add(1)
		opts := sequence(k.home, k.id, int64(k.acked+i-k.base))
		tp.ProduceAsync(t.Context(), topic.AnyPartition, rec(key, k.acked+i), opts, func(_ topic.Position, err error) {
			errs[i] = err
			acks.Done()
		})
	}
	acks.Wait()
	for _, err := range errs {
		if err != nil {
			for _, kind := range []error{fault.NotDone, fault.Unknown, fault.Invalid, fault.Sealed} {
				if errors.Is(err, kind) {
					return errors.Is(err, fault.Sealed)
				}
			}
			t.Fatal(err)
		}
		k.acked++
	}
	return false
}

func lossy(t *testing.T, c *topic.Catalog, r *rand.Rand) {
	tp := open(t, c, "a")
	const numbers, keys = 120, 5
	kept := make([]numbering, keys)
	id := uint64(0)
	for i := range kept {
		id++
		kept[i].id = id
	}
	var switches sync.WaitGroup
	defer switches.Wait()
	for partitions, rounds := 1, 0; ; rounds++ {
		if rounds > 50*numbers {
			t.Fatalf("stuck: %+v", kept)
		}
		if r.IntN(12) == 0 && partitions < 32 {
			partitions *= 2
			switches.Wait()
			switches.Go(func() { grow(t, c, "a", partitions) })
			if r.IntN(2) == 0 {
				switches.Wait()
			}
		}
		if r.IntN(20) == 0 {
			tp = open(t, c, "a") // as by another process
		}
		key := slices.IndexFunc(kept, func(k numbering) bool { return k.acked < numbers })
		if key < 0 {
			break
		}
		if other := r.IntN(keys); kept[other].acked < numbers {
			key = other
		}
		k := &kept[key]
		if again := r.IntN(4); again <= k.acked-k.base { // it forgot answers
			k.acked -= again
		}
		if k.window(t, tp, key, min(1+r.IntN(20), numbers-k.acked)) {
			home, err := tp.Home(t.Context())
			must(t, err)
			if home > k.home { // else the pointer has yet to move on
				id++
				*k = numbering{id: id, home: home, base: k.acked, acked: k.acked}
			}
		}
	}
	switches.Wait()
	must(t, tp.Refresh(t.Context()))
	for k, got := range values(t, tp) {
		if len(got) != numbers || !slices.IsSorted(got) {
			t.Errorf("%s: %d records, in order: %v: %v", k, len(got), slices.IsSorted(got), got)
		}
	}
}
