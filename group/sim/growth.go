package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// storage is a storage topic: some of the partitions, which exist from some moment on, and at a
// later one take no more records.
type storage struct {
	first, count int
	exact        bool // each partition has one parent; else all are
	sealed       bool
}

// storages are those of the scenario. Only the first is there at the beginning.
func (w *world) addStorages(several bool) {
	first := 0
	for i, count := range append([]int{w.plan.units}, w.plan.more...) {
		w.storages = append(w.storages, storage{first: first, count: count, exact: i > 0 && count%w.storages[i-1].count == 0})
		for n := range count {
			w.units = append(w.units, &unit{w: w, number: first + n, storage: i, starts: map[int64]int{}, asked: map[int64]bool{}, other: rand.New(rand.NewPCG(w.seed, uint64(first+n)))})
		}
		first += count
	}
	w.inputs(several)
	w.shown = 1
}

// grow adds a storage topic, or lets the next one take the records when there is one.
func (w *world) grow() {
	if w.current == w.shown-1 && w.shown == len(w.storages) {
		return
	}
	if w.current == w.shown-1 {
		w.shown++
		w.tracef("a storage topic of %d partitions is added", w.storages[w.shown-1].count)
	} else {
		w.seal()
		if w.current < w.shown-1 || w.chance(3) && w.shown < len(w.storages) { // before anything is in it
			w.shown = len(w.storages)
			w.seal()
		}
	}
	for _, n := range w.live() {
		n.in(w.upTo(w.plan.ttl), func() { n.step(core.Grown{Layout: w.layout()}) })
	}
}

func (w *world) seal() {
	w.tracef("storage topic %d is sealed", w.current)
	w.storages[w.current].sealed = true
	w.current++
}

// ended handles each new owner entry of a finished unit. It needs no work, but a member that learns
// late of its end may try, and a seek may send it back at the last moment.
func (w *world) ended(unit int, o protocol.Owner) {
	p := w.units[unit]
	if o.Member != "" {
		p.after++
	} else if w.plan.has[Seeks] && !w.heals && w.chance(4) {
		w.later(w.upTo(50*time.Millisecond), func() {
			if !w.store.down && !w.heals {
				w.seekIn(unit)
			}
		})
	}
	if p.after > 100 {
		w.fail("unit %d is finished and goes from hand to hand", unit)
	}
}

// layout is what members can know now; nil when nothing ever grows.
func (w *world) layout() core.Layout {
	if !w.plan.has[Growth] {
		return nil
	}
	var l core.Layout
	for i := range w.shown {
		s := &w.storages[i]
		for n := range s.count {
			at := core.LayoutUnit{Step: 1}
			for _, p := range w.units[s.first+n].parts {
				in := core.UnitInput{Storage: i, Partition: p.number, End: -1}
				if s.sealed {
					in.End = int64(len(p.keys))
				}
				at.Inputs = append(at.Inputs, in)
			}
			at.From, at.To = w.parents(s.first + n)
			l = append(l, at)
		}
	}
	return l
}

// parents are the units that have to be finished before one starts.
func (w *world) parents(unit int) (from, to int) {
	i := w.units[unit].storage
	if i == 0 {
		return 0, 0
	}
	old, s := &w.storages[i-1], &w.storages[i]
	if !s.exact {
		return old.first, s.first
	}
	p := old.first + (unit-s.first)/(s.count/old.count)
	return p, p + 1
}

// taking is the unit that now takes a record meant for u.
func (u *unit) taking() *unit {
	w := u.w
	for u.storage < w.current {
		s := &w.storages[u.storage+1]
		n := w.rng.IntN(s.count)
		if s.exact {
			each := s.count / w.storages[u.storage].count
			n = (u.number-w.storages[u.storage].first)*each + n%each
		}
		u = w.units[s.first+n]
	}
	return u
}

// gated fails the history when a record is given out though earlier ones of its key may be unfinished: they
// were never processed or, unless a seek goes back, the store says so. Of deleted entries it says nothing: a
// member that has not heard yet of the group's deletion goes on for that long.
func (k *worker) gated(unit int) {
	w := k.n.w
	from, to := w.parents(unit)
	for q := from; q < to; q++ {
		for _, p := range w.units[q].parts {
			end := int64(len(p.keys))
			if !w.storages[p.unit.storage].sealed || p.finished() < end {
				w.fail("%s starts a record of unit %d though %d of %d records of unit %d are finished", k.n, k.unit, p.finished(), end, q)
			}
			if m := doc[protocol.Meta](w.store, w.store.meta); !w.hasAny(Seeks, Rollback) && k.life == w.store.deleted && m.Units > 0 && !m.Deleting && !p.over() {
				w.fail("%s starts a record of unit %d though the checkpoint of unit %d is %v, its end %d", k.n, k.unit, q, w.store.positions(q), end)
			}
		}
		k.gated(q)
	}
}

// finished counts the records that a handler has finished.
func (p *partition) finished() (n int64) {
	for _, done := range p.done {
		if done {
			n++
		}
	}
	return n
}

// over reports whether a unit is finished for ever.
func (w *world) over(unit int) bool {
	u := w.units[unit]
	return w.storages[u.storage].sealed && !slices.ContainsFunc(u.parts, func(p *partition) bool { return !p.over() })
}

// sought lowers the first unit that is worked on, as a seek does.
func (w *world) sought(unit int) []registry.Put {
	meta := doc[protocol.Meta](w.store, w.store.meta)
	if unit >= meta.First && meta.Sought {
		return nil
	}
	meta.First, meta.Sought = min(meta.First, unit), true
	return []registry.Put{{Key: w.store.meta, Value: registry.Encode(meta)}}
}
