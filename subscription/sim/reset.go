package sim

import (
	"maps"

	"github.com/ringfence/ringfence/subscription/core"
)

// reset is a reshard to a set that begins elsewhere.
type reset struct {
	storage int          // that it begins in
	starts  [slots]int64 // -1: where the set before has ended
	shed    bool         // what is parked below is not handed over
	before  *facts       // what was known of the sets before
	taken   [slots]bool  // of that, what is below is known now
	all     bool         // no partition begins where the set before has ended
}

// at is where it begins in a partition; -1: where the one before has ended.
func (r *reset) at(partition int) int64 {
	if r == nil {
		return -1
	}
	return r.starts[partition]
}

// resetTo is a reset for the next reshard, or none.
func (w *world) resetTo() *reset {
	if w.resets.IntN(2) == 0 {
		return nil
	}
	was := w.last().storage
	r := &reset{shed: w.resets.IntN(4) == 0, before: w.facts, storage: was, all: true}
	if w.grows != nil {
		r.storage = w.grows.IntN(w.grown)
	}
	if r.storage != was {
		w.counts.Crossed++
	}
	for k := range slots {
		r.starts[k] = -1
	}
	for k := r.storage * partitions; k < (r.storage+1)*partitions; k++ {
		r.starts[k] = w.resets.Int64N(int64(len(w.main[k])) + 1)
		if w.resets.IntN(4) == 0 && r.storage == was {
			r.starts[k], r.all = -1, false
		}
	}
	w.facts = newFacts()
	w.facts.tokens = r.before.tokens
	w.counts.Resets++
	w.log("a reset to storage topic %d, %v, parked ones are left behind: %t", r.storage, r.starts, r.shed)
	return r
}

// inherit makes facts of what a reset leaves as it was, once the shards before have ended: of all below
// its beginning. What is neither delivered nor parked there is passed over.
func (w *shard) inherit() {
	r := w.reset
	if r == nil {
		return
	}
	for p := range slots {
		if w.grows == nil && !w.parts[p] || r.taken[p] { // a shard of a growing topic waits for all before
			continue
		}
		r.taken[p] = true
		earlier, asItWas := p/partitions < r.storage, p/partitions == r.storage && r.starts[p] < 0
		below := func(o core.Origin) bool {
			return slot(o) == p && (earlier || asItWas || o.Offset < r.starts[p])
		}
		r.before.below(w.judge.facts, below)
		for i := range w.main[p] {
			o := place(p, int64(i))
			switch parked := w.parked(o); {
			case asItWas:
			case !below(o):
				if r.before.delivered[o] > 0 {
					w.counts.Again++
				}
			case w.judge.delivered[o] > 0 || w.judge.discarded[o] || w.judge.dropped[o]:
			case !parked:
				w.counts.Passed++
				w.judge.dropped[o] = true
			case r.shed && (r.all || !earlier):
				w.counts.Shed++
				w.judge.dropped[o] = true
			}
		}
	}
}

// parked reports whether a shard before has left a record parked, or as a dead letter.
func (w *shard) parked(o core.Origin) bool {
	for _, p := range w.parents {
		if p.judge.item(o) != nil {
			return true
		}
	}
	return false
}

// below copies what is known of some records.
func (f *facts) below(to *facts, some func(core.Origin) bool) {
	copyOf(f.tries, to.tries, some)
	copyOf(f.delivered, to.delivered, some)
	copyOf(f.discarded, to.discarded, some)
	copyOf(f.dropped, to.dropped, some)
	copyOf(f.everDead, to.everDead, some)
	copyOf(f.over, to.over, some)
	byID := func(id core.ID) bool { return some(id.Origin) }
	copyOf(f.value, to.value, byID)
	copyOf(f.noted, to.noted, byID)
}

func copyOf[K comparable, V any](from, to map[K]V, some func(K) bool) {
	all := maps.Clone(from)
	maps.DeleteFunc(all, func(k K, _ V) bool { return !some(k) })
	maps.Copy(to, all)
}
