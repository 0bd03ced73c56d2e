package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// A churn is a ring whose members come, go, die and are cut off, on the clock of a synctest
// bubble, so that all members can be asked at the same instant.
type churn struct {
	t     *testing.T
	rng   *rand.Rand
	mode  ring.Mode
	store *memregistry.Store
	keys  []string
	next  int
	live  []*actor

	limits  limits
	none    map[string]time.Time // since when nobody answers yes for a key
	both    map[string]time.Time // since when several do
	epochs  map[string]int64     // the highest epoch of a yes, of a table ring's slot
	longest limits
}

// actor is a process of the churn.
type actor struct {
	h    *memregistry.Handle
	r    *ring.Ring
	gone chan struct{} // closed when its leave is over
}

// limits are how long a key may have no or several members that answer yes.
type limits struct{ none, both time.Duration }

const (
	churnTTL     = 2 * time.Second
	churnDrain   = 100 * time.Millisecond
	churnLatency = 2 * time.Millisecond
	churnTick    = 3 * time.Millisecond
)

func newChurn(t *testing.T, seed uint64, mode ring.Mode, l limits) *churn {
	return &churn{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), mode: mode, store: memregistry.NewStore(), keys: someKeys(12), limits: l,
		none: map[string]time.Time{}, both: map[string]time.Time{}, epochs: map[string]int64{},
	}
}

func (c *churn) join() {
	h := c.store.Open()
	h.SetLatency(churnLatency)
	cfg := ring.Config{Registry: h.Registry, Name: "r", Member: fmt.Sprintf("m%d", c.next), Mode: c.mode, TTL: churnTTL, Drain: churnDrain}
	if c.mode == ring.Table {
		cfg.Slots = 16
	}
	c.next++
	r, err := ring.Join(c.t.Context(), cfg)
	must(c.t, err)
	c.live = append(c.live, &actor{h: h, r: r, gone: make(chan struct{})})
}

// out takes a member off the list of those that are expected to stay.
func (c *churn) out() *actor {
	i := c.rng.IntN(len(c.live))
	a := c.live[i]
	c.live = slices.Delete(c.live, i, i+1)
	return a
}

// leave says goodbye in the background; the asking goes on meanwhile.
func (c *churn) leave(a *actor, asked *[]*actor) {
	*asked = append(*asked, a)
	go func() { // joined by finish
		defer close(a.gone)
		if err := a.r.Close(context.Background()); err != nil {
			c.t.Errorf("%s leaves: %v", a.r.Member(), err)
		}
		_ = a.h.Close()
	}()
}

// kill is kill -9: nobody can ask the process any more.
func (c *churn) kill(a *actor) {
	a.h.Kill()
	go func() { // joined by finish
		defer close(a.gone)
		_ = a.r.Close(context.Background()) // it can't say goodbye
	}()
}

// ask asks all members about all keys at this instant.
func (c *churn) ask(members []*actor) {
	now := time.Now()
	for _, key := range c.keys {
		var yes []string
		var epoch int64
		for _, a := range members {
			if mine, e := a.r.ShouldHandle(key); mine {
				yes = append(yes, a.r.Member())
				epoch = e
			}
		}
		c.count(key, now, c.none, len(yes) == 0, c.limits.none, &c.longest.none, yes)
		c.count(key, now, c.both, len(yes) > 1, c.limits.both, &c.longest.both, yes)
		if c.mode == ring.Table && len(yes) == 1 {
			if epoch < c.epochs[key] {
				c.t.Fatalf("%s: %v answers yes at epoch %d, after epoch %d was seen", key, yes, epoch, c.epochs[key])
			}
			c.epochs[key] = epoch
		}
	}
}

func (c *churn) count(key string, now time.Time, since map[string]time.Time, holds bool, limit time.Duration, longest *time.Duration, yes []string) {
	if !holds {
		delete(since, key)
		return
	}
	if _, ok := since[key]; !ok {
		since[key] = now
	}
	d := now.Sub(since[key]) + churnTick // it may have begun just after the last look
	*longest = max(*longest, d)
	if d > limit+churnTick {
		c.t.Fatalf("key %s: %d members %v answer yes for %s; at most %s is allowed", key, len(yes), yes, d, limit)
	}
}

// pass lets time go by, asking at each tick.
func (c *churn) pass(d time.Duration, others *[]*actor) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(churnTick) {
		synctest.Wait()
		*others = slices.DeleteFunc(*others, func(a *actor) bool {
			select {
			case <-a.gone:
				return true
			default:
				return false
			}
		})
		c.ask(slices.Concat(c.live, *others))
	}
}

// finish waits for agreement, then ends everything.
func (c *churn) finish(others *[]*actor, killed []*actor) {
	c.pass(4*churnTTL+5*time.Second, others)
	var members []*ring.Ring
	for _, a := range c.live {
		members = append(members, a.r)
	}
	if err := settled(members, c.keys); err != nil {
		c.t.Errorf("at the end: %v", err)
	}
	for _, a := range c.live {
		c.leave(a, others)
	}
	for _, a := range slices.Concat(*others, killed) {
		<-a.gone
	}
}

// Members join, leave and are killed. A key is left alone only as long as a handover or the
// takeover of a dead member's keys takes, and several members have it only within the drain of
// one that leaves, or until the others have heard of one that joins; in a table ring, never.
func TestChurnKeepsEveryKeyWithOneMember(t *testing.T) {
	t.Parallel()
	bounds := map[ring.Mode]limits{
		ring.Anchor: {none: 150 * time.Millisecond, both: churnDrain + 10*churnLatency},
		ring.Table:  {none: churnDrain + time.Second, both: 0},
	}
	for seed := range uint64(3) {
		inEachMode(t, func(t *testing.T, mode ring.Mode) {
			synctest.Test(t, func(t *testing.T) {
				c := newChurn(t, seed, mode, limits{none: time.Hour, both: bounds[mode].both})
				var leaving, killed []*actor
				c.join()
				c.pass(3*time.Second, &leaving)
				c.limits = bounds[mode]
				for range 25 {
					switch n := c.rng.IntN(4); {
					case n <= 1 && len(c.live) < 6 || len(c.live) == 1:
						c.join()
					case n == 2:
						c.leave(c.out(), &leaving)
					default:
						a := c.out()
						c.kill(a)
						killed = append(killed, a)
					}
					c.pass(time.Duration(50+c.rng.IntN(1500))*time.Millisecond, &leaving)
				}
				c.limits.none = time.Hour // who leaves last has no heir
				c.finish(&leaving, killed)
				t.Logf("the longest: nobody %s, several %s", c.longest.none, c.longest.both)
			})
		})
	}
}

// Members are stopped beyond their lease and go on, and are cut off from the store, alone and all
// together. In a table ring there are still never two; in an anchor ring a member that hears
// nothing keeps its last view no longer than its session lasts.
func TestStopsAndOutagesNeverLeaveTwoOwnersInATable(t *testing.T) {
	t.Parallel()
	bounds := map[ring.Mode]limits{
		ring.Anchor: {none: time.Hour, both: churnTTL + churnDrain + 20*churnLatency},
		ring.Table:  {none: time.Hour, both: 0},
	}
	for seed := range uint64(3) {
		inEachMode(t, func(t *testing.T, mode ring.Mode) {
			synctest.Test(t, func(t *testing.T) {
				c := newChurn(t, seed, mode, bounds[mode])
				var leaving []*actor
				for range 4 {
					c.join()
				}
				c.pass(3*time.Second, &leaving)
				for range 20 {
					a := c.live[c.rng.IntN(len(c.live))]
					d := time.Duration(c.rng.Int64N(int64(2 * churnTTL)))
					switch c.rng.IntN(5) {
					case 0:
						a.h.Freeze()
						c.pass(d, &leaving)
						a.h.Thaw()
					case 1:
						a.h.SetOutage(true)
						c.pass(d, &leaving)
						a.h.SetOutage(false)
					case 2:
						c.store.SetOutage(true)
						c.pass(d, &leaving)
						c.store.SetOutage(false)
					case 3:
						a.h.LoseReplies(1 + c.rng.IntN(3))
						c.join()
					default:
						if len(c.live) > 2 {
							c.leave(c.out(), &leaving)
						}
					}
					c.pass(d/2, &leaving)
				}
				c.finish(&leaving, nil)
				t.Logf("the longest: nobody %s, several %s", c.longest.none, c.longest.both)
			})
		})
	}
}

// A member that can't reach the store goes on with what it knows for as long as its session
// certainly lives, then answers no, and comes back by itself.
func TestAnOutageIsAPause(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		synctest.Test(t, func(t *testing.T) {
			h := memregistry.NewStore().Open()
			t.Cleanup(func() { _ = h.Close() })
			r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: "m", Mode: mode, TTL: churnTTL})
			must(t, err)
			defer func() { _ = r.Close(context.Background()) }()
			must(t, r.WaitEstablished(t.Context()))
			yes := func() bool { mine, _ := r.ShouldHandle("k"); return mine }
			h.SetOutage(true)
			time.Sleep(churnTTL / 4)
			if !yes() {
				t.Error("in a short outage: no; expected yes while the session lives")
			}
			time.Sleep(churnTTL)
			if yes() {
				t.Error("yes, though the session may have ended")
			}
			if err := r.Refresh(t.Context()); !errors.Is(err, ring.ErrUnavailable) && mode == ring.Anchor {
				t.Errorf("a refresh in an outage: %v; want unavailable", err)
			}
			h.SetOutage(false)
			time.Sleep(4 * time.Second)
			if !yes() {
				t.Error("the store is back, and the answer is still no")
			}
		})
	})
}
