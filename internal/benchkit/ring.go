package benchkit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// RingConfig says what to measure; zero fields have defaults.
type RingConfig struct {
	Common
	Keys    int // that one member more or less is asked about; default 1,000,000
	Members int // of the ring that is asked; default 100
	Others  int // members that see one join and leave; default 3
	Changes int // joins and leaves of a round; default 20
}

// What is promised of a ring.
const (
	ringLookupNS = 20  // one lookup
	ringMoves    = 1.1 // times the share of a member, that move when one comes or goes
)

// Ring measures a lookup, how many keys move when members change, and how soon the other members
// see that one joined or left.
func Ring(ctx context.Context, c RingConfig) (_ *Result, err error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Keys, 1_000_000)
	setDefault(&c.Members, 100)
	setDefault(&c.Others, 3)
	setDefault(&c.Changes, 20)
	var d demand
	d.positive("--keys", c.Keys)
	d.positive("--members", c.Members)
	d.positive("--others", c.Others)
	d.positive("--changes", c.Changes)
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	c.Stores = c.apart()
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &ringRun{c: &c, dir: dir, sample: keysOf(512)}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	if err := r.fill(ctx); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	scheme := c.registryScheme()
	var game contest
	lookup := fmt.Sprintf("Owner of a key, %s", many(c.Members, "member"))
	game.add(lookup, "ns", "", 1, func(*histogram) (float64, error) {
		return r.time(func() {
			for _, key := range r.sample {
				_, _ = r.asked.Owner(key)
			}
		}), ctx.Err()
	}).atMost(lookup, ringLookupNS)
	game.add(fmt.Sprintf("ShouldHandle, the answer is yes, %s", many(c.Members, "member")), "ns", "", 1, func(*histogram) (float64, error) {
		return r.time(func() {
			for range r.sample {
				_, _ = r.asked.ShouldHandle(r.yes)
			}
		}), ctx.Err()
	})
	for _, leaves := range []bool{false, true} {
		name := fmt.Sprintf("join, seen by %s", many(c.Others, "other"))
		if leaves {
			name = fmt.Sprintf("leave, seen by %s", many(c.Others, "other"))
		}
		e := game.add(name, "ms, median", "", 1, func(h *histogram) (float64, error) { return r.seen(ctx, h, leaves) })
		if ceiling := seenCeiling[scheme]; ceiling > 0 {
			e.atMost(name+", median", ceiling)
		}
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	figures = append(figures, newFigure("allocations of a lookup", "allocs", []float64{r.allocations()}, 0, true))
	figures = append(figures, c.moves()...)
	return &Result{Bench: "ring", Rows: rows, Figures: figures, About: fmt.Sprintf("%s, %s%s",
		many(c.Keys, "key"), many(c.Rounds, "round"), c.about())}, nil
}

// ringRun is the rings of a measurement.
type ringRun struct {
	c      *RingConfig
	dir    string
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
	for i := range r.c.Members {
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
	for i := range r.c.Others + 1 {
		reg, err := ringfence.OpenRegistry(ctx, ringfence.Config{
			Dir: r.dir, Registry: r.c.Stores.Registry, Namespace: r.c.Namespace, Backends: r.c.Backends,
		})
		if err != nil {
			return err
		}
		r.stores = append(r.stores, reg)
		if i == r.c.Others {
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

// time is what one call takes, of as many as there are sample keys in a batch: the median of many
// batches, so that a pause of the machine is not taken for the work.
func (r *ringRun) time(batch func()) float64 {
	var batches []float64
	for began := time.Now(); time.Since(began) < r.c.For; {
		start := time.Now()
		batch()
		batches = append(batches, float64(time.Since(start))/float64(len(r.sample)))
	}
	return median(batches)
}

// allocations of one lookup, rounded down: the members in the background allocate too.
func (r *ringRun) allocations() float64 {
	const rounds = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		for _, key := range r.sample {
			_, _ = r.asked.Owner(key)
			_, _ = r.asked.ShouldHandle(key)
		}
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / (rounds * uint64(len(r.sample))))
}

// seen is how long the others take, median, to see that one joined or left, from the call on.
func (r *ringRun) seen(ctx context.Context, h *histogram, leaves bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var round histogram
	for range r.c.Changes {
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
			round.add(d)
		}
	}
	h.merge(round.sparse())
	return round.micros(0.5) / 1000, nil
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
			return nil, fmt.Errorf("waited for %s to see %s: %w", many(len(r.others), "member"), many(members, "member"), ctx.Err())
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
	if r.c.given() && r.joiner != nil {
		errs = append(errs, ring.Delete(ctx, r.joiner, "bench"))
	}
	for _, s := range r.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// moves counts the keys that move when one of N leaves, and when one joins.
func (c *RingConfig) moves() []Figure {
	keys := keysOf(c.Keys)
	var figures []Figure
	for _, n := range []int{10, 50, 100} {
		a := new(assign.Anchor)
		for i := range n {
			a, _ = a.Add(fmt.Sprintf("member-%03d", i)) // names differ, and are few
		}
		more, _ := a.Add("comer")
		without := a.Remove(fmt.Sprintf("member-%03d", n/3))
		for _, change := range []struct {
			what string
			to   *assign.Anchor
		}{{"leaves", without}, {"joins", more}} {
			moved := 0
			for _, key := range keys {
				if a.Owner(key) != change.to.Owner(key) {
					moved++
				}
			}
			share := float64(moved) * float64(n) / float64(len(keys))
			name := fmt.Sprintf("keys that move when one of %d %s, of 1/%d", n, change.what, n)
			figures = append(figures, newFigure(name, "x", []float64{share}, ringMoves, true))
		}
	}
	return figures
}
