package ring_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// A member of a table ring that is started again under its ID answers yes only when the earlier
// start can't any more, and what that began has had its drain: told of the newer one, or cut off
// and so alive to itself until its session is over.
func TestAnExclusiveMemberThatIsStartedAgainWaitsForTheEarlierStart(t *testing.T) {
	t.Parallel()
	const ttl, drain = 3 * time.Second, 300 * time.Millisecond
	for name, cut := range map[string]bool{"told": false, "cut off": true} {
		synctest.Test(t, func(t *testing.T) {
			store := memregistry.NewStore()
			ha, hb := store.Open(), store.Open()
			t.Cleanup(func() { _ = ha.Close() })
			t.Cleanup(func() { _ = hb.Close() })
			cfg := ring.Config{Registry: ha.Registry, Name: "r", Member: "m", Mode: ring.Table, Slots: 32, TTL: ttl, Drain: drain}
			a, err := ring.Join(t.Context(), cfg)
			must(t, err)
			defer func() { _ = a.Close(context.Background()) }() // it may have been cut off
			must(t, a.WaitEstablished(t.Context()))
			key := keyOf(t, a)
			time.Sleep(ttl/3 - time.Millisecond) // a renewal is due
			ha.SetOutage(cut)
			began := time.Now()
			cfg.Registry = hb.Registry
			b, err := ring.Join(t.Context(), cfg)
			must(t, err)
			defer func() { _ = b.Close(context.Background()) }()
			last := began
			for !yes(b, key) {
				if yes(a, key) {
					last = time.Now()
				}
				if time.Since(began) > 4*ttl {
					t.Fatalf("%s: nobody owns the key", name)
				}
				time.Sleep(time.Millisecond)
			}
			if yes(a, key) {
				t.Errorf("%s: both starts say yes", name)
			}
			if pause := time.Since(last); !cut && pause < drain {
				t.Errorf("%s: the next yes comes %s after the last; the drain is %s", name, pause, drain)
			}
			ha.SetOutage(false)
			synctest.Wait()
			time.Sleep(ttl)
			if yes(a, key) || !yes(b, key) || !errors.Is(a.Err(), ring.ErrFenced) || b.Err() != nil {
				t.Errorf("%s: the earlier start: %t, %v; the later: %t, %v", name, yes(a, key), a.Err(), yes(b, key), b.Err())
			}
		})
	}
}

// between calls after, once, when a transaction on a key that contains what was applied, before
// whoever sent it hears of it.
type between struct {
	*registry.Registry
	what  string
	once  sync.Once
	after func()
}

func (b *between) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	res, err := b.Registry.Apply(ctx, txns)
	for i := range txns {
		for _, p := range txns[i].Puts {
			if strings.Contains(p.Key, b.what) {
				b.once.Do(b.after)
			}
		}
	}
	return res, err
}

// However slow the earlier start is, and wherever it was when the later one came: that one wins.
func TestOfTwoStartsTheLaterWins(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		for _, at := range []string{"rings/r/meta", "/starts/", "/members/"} {
			synctest.Test(t, func(t *testing.T) {
				store := memregistry.NewStore()
				ha, hb := store.Open(), store.Open()
				t.Cleanup(func() { _ = ha.Close() })
				t.Cleanup(func() { _ = hb.Close() })
				cfg := ring.Config{Name: "r", Member: "m", Mode: mode}
				joined := make(chan *ring.Ring, 1)
				slow := &between{Registry: ha.Registry, what: at, after: func() {
					c := cfg
					c.Registry = hb.Registry
					later, err := ring.Join(t.Context(), c)
					if err != nil {
						t.Error(err)
					}
					joined <- later
					time.Sleep(time.Second)
				}}
				cfg.Registry = registry.New(slow)
				earlier, err := ring.Join(t.Context(), cfg)
				must(t, err)
				time.Sleep(10 * time.Second)
				later := <-joined
				first, second := earlier, later
				if at == "rings/r/meta" { // it had said nothing yet, so it is the later one
					first, second = later, earlier
				}
				if !errors.Is(first.Err(), ring.ErrFenced) || second.Err() != nil {
					t.Errorf("met at %s: the earlier start: %v, the later: %v", at, first.Err(), second.Err())
				}
				if err := second.WaitEstablished(t.Context()); err != nil {
					t.Errorf("met at %s: %v", at, err)
				}
				_, _ = first.Close(context.Background()), second.Close(context.Background())
			})
		}
	})
}

// widest is the largest transaction of a store, by its checks and writes.
type widest struct {
	*registry.Registry
	mu  sync.Mutex
	ops int
}

func (w *widest) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	w.mu.Lock()
	for i := range txns {
		w.ops = max(w.ops, len(txns[i].Checks), len(txns[i].Puts)+len(txns[i].Deletes))
	}
	w.mu.Unlock()
	return w.Registry.Apply(ctx, txns)
}

// After a power cut the first to come back finds all others dead. Stores take only so many checks
// in one transaction.
func TestNoTransactionGrowsWithTheDead(t *testing.T) {
	t.Parallel()
	store := memregistry.NewStore()
	h := store.Open()
	t.Cleanup(func() { _ = h.Close() }) // behind the members
	anchor, members := new(assign.Anchor), map[string]string{}
	for i := range 300 {
		id := fmt.Sprintf("m%03d", i)
		members[id] = "old"
		var err error
		if anchor, err = anchor.Add(id); err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.Txn(t.Context(), registry.Txn{Puts: []registry.Put{
		{Key: "rings/r/meta", Value: registry.Encode(map[string]any{"format": 1, "mode": "anchor"})},
		{Key: "rings/r/anchor", Value: registry.Encode(map[string]any{"format": 1, "epoch": 300, "members": members, "anchor": anchor})},
	}})
	must(t, err)
	w := &widest{Registry: h.Registry}
	a := join(t, registry.New(w), ring.Anchor, "m000")
	b := join(t, registry.New(w), ring.Anchor, "new")
	waitSettled(t, []*ring.Ring{a, b}, someKeys(100))
	if w.ops > 8 {
		t.Errorf("a transaction has %d checks or writes", w.ops)
	}
}

// A document above the limit of values can't be written, however often it is tried.
func TestAMemberThatDoesNotFitIsTold(t *testing.T) {
	t.Parallel()
	store := memregistry.NewStore()
	h := store.Open()
	t.Cleanup(func() { _ = h.Close() }) // behind the members
	a := join(t, h.Registry, ring.Anchor, "a", func(c *ring.Config) { c.Incarnation = strings.Repeat("x", registry.MaxValueBytes/2) })
	b, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: "b", Incarnation: strings.Repeat("y", registry.MaxValueBytes/2)})
	must(t, err)
	defer func() { _ = b.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.WaitEstablished(ctx); !errors.Is(err, ring.ErrInvalid) {
		t.Errorf("a member that does not fit: %v; expected an invalid argument", err)
	}
	if err := settled([]*ring.Ring{a}, someKeys(10)); err != nil {
		t.Error(err)
	}
}
