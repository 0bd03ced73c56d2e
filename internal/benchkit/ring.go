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
type rings struct{ Keys, Members, Others, Changes int }

func (c *rings) settings(s *settings) {
	s.turns()
	s.number(&c.Keys, "keys", 1_000_000, 1, "keys that one member more or less is asked about")
	s.number(&c.Members, "members", 100, 1, "members of the ring that is asked")
	s.number(&c.Others, "others", 3, 1, "members that see one join and leave")
	s.number(&c.Changes, "changes", 20, 1, "joins and leaves of a round")
}

func (c *rings) measure(ctx context.Context, r *run) error {
	m := &ringRun{rings: c, run: r, sample: keysOf(512)}
	r.later(func() error { return m.close(context.WithoutCancel(ctx)) })
	if err := m.fill(ctx); err != nil {
		return err
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	lookup := func(kind, name string, batch func()) {
		r.Add(measure.Entry{Name: fmt.Sprintf("%s, %s", name, measure.Many(c.Members, "member")), Unit: "ns", Kind: kind, Turn: func(*measure.Histogram) (float64, error) {
			return measure.Each(r.For, len(m.sample), batch), ctx.Err()
		}})
	}
	lookup("lookup", "Owner of a key", func() {
		for _, key := range m.sample {
			_, _ = m.asked.Owner(key)
		}
	})
	lookup("", "ShouldHandle, the answer is yes", func() {
		for range m.sample {
			_, _ = m.asked.ShouldHandle(m.yes)
		}
	})
	for _, change := range []string{"join", "leave"} {
		name := fmt.Sprintf("%s, seen by %s", change, measure.Many(c.Others, "other"))
		r.Add(measure.Entry{Name: name, Unit: "ms, median", Kind: "seen", Turn: func(h *measure.Histogram) (float64, error) { return m.seen(ctx, h, change == "leave") }})
	}
	if err := r.play(); err != nil {
		return err
	}
	r.Show("lookup allocations", "allocs", 0, []float64{m.allocations()})
	c.moves(r)
	return r.done("%s, %s", measure.Many(c.Keys, "key"), measure.Many(r.Rounds, "round"))
}

// ringRun is the rings of a measurement.
type ringRun struct {
	*rings
	*run
	sample []string
	stores []*registry.Registry

	asked *ring.Ring // one of many, in memory
	yes   string     // a key of its own
	many  []*ring.Ring

	joiner *registry.Registry
	others []*ring.Ring
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
func (r *ringRun) fill(ctx context.Context) error {
	reg := memregistry.New()
	r.stores = append(r.stores, reg)
	for i := range r.Members {
		m, err := ring.Join(ctx, ring.Config{Registry: reg, Name: "bench", Member: fmt.Sprintf("member-%03d", i), Drain: -1})
		if err != nil {
			return err
		}
		r.many = append(r.many, m)
		if err := m.WaitEstablished(ctx); err != nil {
			return err
		}
	}
	r.asked = r.many[len(r.many)-1]
	for _, key := range r.sample {
		if mine, _ := r.asked.ShouldHandle(key); mine {
			r.yes = key
		}
	}
	return nil
}

// open makes the members that see another one come and go, each with a connection of its own.
func (r *ringRun) open(ctx context.Context) error {
	r.sights = make(chan sight, 1024)
	for i := range r.Others + 1 {
		reg, err := ringfence.OpenRegistry(ctx, ringfence.Config{
			Dir: r.dir, Registry: r.Stores.Registry, Namespace: r.Namespace, Backends: r.Backends,
		})
		if err != nil {
			return err
		}
		r.stores = append(r.stores, reg)
		if i == r.Others {
			r.joiner = reg
			break
		}
		m, err := r.join(ctx, reg, fmt.Sprintf("other-%d", i), func(_, now *ring.View) {
			r.sights <- sight{at: time.Now(), members: len(now.Members)}
		})
		if err != nil {
			return err
		}
		r.others = append(r.others, m)
	}
	return nil
}

func (r *ringRun) join(ctx context.Context, reg *registry.Registry, member string, changed func(_, now *ring.View)) (*ring.Ring, error) {
	m, err := ring.Join(ctx, ring.Config{Registry: reg, Name: "bench", Member: member, Drain: -1, Events: ring.Events{Changed: changed}})
	if err != nil {
		return nil, err
	}
	if err := m.WaitEstablished(ctx); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
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
func (r *ringRun) seen(ctx context.Context, h *measure.Histogram, leaves bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range r.Changes {
		began := time.Now()
		m, err := r.join(ctx, r.joiner, "comer", nil)
		if err != nil {
			return 0, err
		}
		joined, err := r.await(ctx, began, len(r.others)+1)
		if err != nil {
			return 0, errors.Join(err, m.Close(ctx))
		}
		began = time.Now()
		if err := m.Close(ctx); err != nil {
			return 0, err
		}
		left, err := r.await(ctx, began, len(r.others))
		if err != nil {
			return 0, err
		}
		took := joined
		if leaves {
			took = left
		}
		for _, d := range took {
			h.Add(d)
		}
	}
	return h.Micros(0.5) / 1000, nil
}

// await waits until each of the others has seen so many members.
func (r *ringRun) await(ctx context.Context, began time.Time, members int) (took []time.Duration, err error) {
	for len(took) < len(r.others) {
		select {
		case s := <-r.sights:
			if s.members == members && s.at.After(began) {
				took = append(took, s.at.Sub(began))
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("waited for %s to see %s: %w", measure.Many(len(r.others), "member"), measure.Many(members, "member"), ctx.Err())
		}
	}
	return took, nil
}

func (r *ringRun) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errs []error
	for _, m := range r.others {
		errs = append(errs, m.Close(ctx))
	}
	for _, m := range r.many { // in memory, and of this process alone: on a busy machine a hundred goodbyes take long
		_ = m.Close(ctx)
	}
	if r.given() && r.joiner != nil {
		errs = append(errs, ring.Delete(ctx, r.joiner, "bench"))
	}
	for _, s := range r.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
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
