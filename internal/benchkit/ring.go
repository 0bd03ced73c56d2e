package benchkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// rings measures a lookup, how many keys move when members change, and how soon the other members see
// that one joined or left.
type rings struct {
	Keys    int `default:"1000000" usage:"keys that one member more or less is asked about"`
	Members int `default:"100" usage:"members of the ring that is asked"`
	Others  int `default:"3" usage:"members that see one join and leave"`
	Changes int `default:"20" usage:"joins and leaves of a round"`
}

func (c *rings) measure(ctx context.Context, r *run) {
	m := &ringRun{rings: c, run: r, sample: keysOf(512)}
	m.fill(ctx)
	m.open(ctx)
	members := measure.Many(c.Members, "member")
	r.enterCalls(ctx, "lookup", "Owner of a key, "+members, "ns", len(m.sample), func() {
		for _, key := range m.sample {
			_, _ = m.asked.Owner(key)
		}
	})
	r.enterCalls(ctx, "", "ShouldHandle, the answer is yes, "+members, "ns", len(m.sample), func() {
		for range m.sample {
			_, _ = m.asked.ShouldHandle(m.yes)
		}
	})
	for _, change := range []string{"join", "leave"} {
		name := fmt.Sprintf("%s, seen by %s", change, measure.Many(c.Others, "other"))
		r.Add(measure.Entry{Name: name, Unit: "ms, median", Kind: "seen", Turn: func(t *measure.Turn) float64 { return m.seen(ctx, t, change == "leave") }})
	}
	r.play()
	r.Show("lookup allocations", "allocs", 0, []float64{m.allocations()})
	c.moves(r)
	r.done("%s, %s", measure.Many(c.Keys, "key"), measure.Many(r.Rounds, "round"))
}

// ringRun is the rings of a measurement.
type ringRun struct {
	*rings
	*run
	sample []string

	asked *ring.Ring // one of many, in memory
	yes   string     // a key of its own

	joiner *registry.Registry
	sights chan sight // what the others see
}

// sight is that a member saw the ring with so many members.
type sight struct {
	at      time.Time
	members int
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%d", i)
	}
	return keys
}

// fill makes the ring that lookups are measured in.
func (r *ringRun) fill(ctx context.Context) {
	reg := memregistry.New()
	r.Later(reg.Close)
	var many []*ring.Ring
	r.Later(func() error {
		_ = r.quit(ctx, many...) // in memory, and of this process alone: on a busy machine a hundred goodbyes take long
		return nil
	})
	for i := range r.Members {
		r.asked = r.join(ctx, reg, fmt.Sprintf("member-%03d", i), nil)
		many = append(many, r.asked)
	}
	for _, key := range r.sample {
		if mine, _ := r.asked.ShouldHandle(key); mine {
			r.yes = key
		}
	}
}

// open makes the members that see another one come and go, each with a connection of its own.
func (r *ringRun) open(ctx context.Context) {
	r.sights = make(chan sight, 1024)
	connect := func() *registry.Registry {
		reg := must(ringfence.OpenRegistry(ctx, ringfence.Config{Dir: r.dir, Registry: r.Stores.Registry, Namespace: r.Namespace, Backends: r.Backends}))
		r.Later(reg.Close)
		return reg
	}
	r.joiner = connect()
	if r.given() {
		r.Later(func() error { return ring.Delete(context.WithoutCancel(ctx), r.joiner, "bench") })
	}
	for i := range r.Others {
		m := r.join(ctx, connect(), fmt.Sprintf("other-%d", i), func(_, now *ring.View) {
			r.sights <- sight{at: time.Now(), members: len(now.Members)}
		})
		r.Later(func() error { return r.quit(ctx, m) })
	}
}

func (r *ringRun) join(ctx context.Context, reg *registry.Registry, member string, changed func(_, now *ring.View)) *ring.Ring {
	m := must(ring.Join(ctx, ring.Config{Registry: reg, Name: "bench", Member: member, Drain: -1, Events: ring.Events{Changed: changed}}))
	if err := m.WaitEstablished(ctx); err != nil {
		check(errors.Join(err, m.Close(ctx)))
	}
	return m
}

func (r *ringRun) quit(ctx context.Context, members ...*ring.Ring) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, m := range members {
		err = errors.Join(err, m.Close(ctx))
	}
	return err
}

// allocations of one lookup.
func (r *ringRun) allocations() float64 {
	batch := measure.Allocations(1000, func() {
		for _, key := range r.sample {
			_, _ = r.asked.Owner(key)
			_, _ = r.asked.ShouldHandle(key)
		}
	})
	return float64(int(batch) / len(r.sample))
}

// seen is how long the others take, median, to see that one joined or left, from the call on.
func (r *ringRun) seen(ctx context.Context, t *measure.Turn, leaves bool) float64 {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range r.Changes {
		began := time.Now()
		m := r.join(ctx, r.joiner, "comer", nil)
		took := r.await(ctx, began, r.Others+1)
		began = time.Now()
		check(m.Close(ctx))
		if left := r.await(ctx, began, r.Others); leaves {
			took = left
		}
		for _, d := range took {
			t.Latency.Add(d)
		}
	}
	return t.Latency.Micros(0.5) / 1000
}

// await waits until each of the others has seen so many members.
func (r *ringRun) await(ctx context.Context, began time.Time, members int) (took []time.Duration) {
	for len(took) < r.Others {
		select {
		case s := <-r.sights:
			if s.members == members && s.at.After(began) {
				took = append(took, s.at.Sub(began))
			}
		case <-ctx.Done():
			check(fmt.Errorf("waited for %s to see %s: %w", measure.Many(r.Others, "member"), measure.Many(members, "member"), ctx.Err()))
		}
	}
	return took
}

// moves counts the keys that move when one of N leaves, and when one joins.
func (c *rings) moves(r *run) {
	keys := keysOf(c.Keys)
	for _, n := range []int{10, 50, 100} {
		a := new(assign.Anchor)
		for i := range n {
			a, _ = a.Add(fmt.Sprintf("member-%03d", i)) // names differ, and are few
		}
		more, _ := a.Add("comer")
		for _, change := range []struct {
			what string
			to   *assign.Anchor
		}{{"leaves", a.Remove(fmt.Sprintf("member-%03d", n/3))}, {"joins", more}} {
			moved := 0
			for _, key := range keys {
				if a.Owner(key) != change.to.Owner(key) {
					moved++
				}
			}
			r.Show("keys that move", "x", 0, []float64{float64(moved) * float64(n) / float64(len(keys))}, n, change.what)
		}
	}
}
