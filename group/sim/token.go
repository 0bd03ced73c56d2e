package sim

import "slices"

// A receiver of what the workers hand out keeps the highest token of each key and refuses lower ones, and so knows
// nothing of units, owners or epochs. This file is that receiver. A key of a unit may have been handed out in any
// unit that comes before or after it, so their tokens count for all of its keys.

// token is what comes with a record: the epoch of the owner, and the number of the hand-out in its process.
type token struct {
	epoch int64
	n     int
}

func (a token) below(b token) bool { return a.epoch < b.epoch || a.epoch == b.epoch && a.n < b.n }

// tokens are what a receiver has of a unit, in all lives of the group.
type tokens struct {
	keys map[string]token // the highest
	all  token            // of them
	due  token            // the highest that a rightful owner handed out
}

// handOut takes a record to the receiver.
func (k *worker) handOut(l *input, o int64) {
	w := k.n.w
	k.n.handouts++
	t, key, got := token{k.epoch, k.n.handouts}, l.keys[o], &w.units[k.unit].got
	related := w.related(k.unit)
	if w.plan.has[Rollback] { // it forgets that a unit was finished
		return
	}
	if w.rightful(k) {
		if key != "" && !got.keys[key].below(t) {
			w.fail("a receiver refuses %v of unit %d from its owner %s: of key %q it has %v", t, k.unit, k.n, key, got.keys[key])
		}
		for _, u := range related {
			if !w.units[u].got.all.below(t) {
				w.fail("a receiver refuses %v of unit %d from its owner %s: unit %d, which may have had the key, was at %v", t, k.unit, k.n, u, w.units[u].got.all)
			}
		}
		got.due = t
	} else {
		w.stale++
		for _, u := range append(related, k.unit) {
			due := w.units[u].got.due
			if now, _ := w.store.owner(u); due.n > 0 && now.Epoch == due.epoch && w.open(u) && !w.over(u) && due.epoch != k.epoch && due.below(t) {
				w.fail("a receiver takes %v of unit %d from %s, which does not own it any more: unit %d is at %v", t, k.unit, k.n, u, due)
			}
		}
	}
	if got.keys == nil {
		got.keys = map[string]token{}
	}
	if got.keys[key].below(t) {
		got.keys[key] = t
	}
	if got.all.below(t) {
		got.all = t
	}
}

// rightful reports whether a worker may hand a record out, according to the store at this moment. Amid a seek of a unit
// before its own it may not.
func (w *world) rightful(k *worker) bool {
	_, version := w.store.owner(k.unit)
	return version == k.grant && w.open(k.unit) && w.units[k.unit].unheard == 0
}

// open reports whether all units before one are finished.
func (w *world) open(unit int) bool {
	return !slices.ContainsFunc(w.before(unit), func(u int) bool { return !w.over(u) })
}

// refused reports whether a receiver would refuse what a worker hands out next.
func (k *worker) refused() bool {
	w := k.n.w
	return !w.plan.has[Rollback] && slices.ContainsFunc(w.related(k.unit), func(u int) bool { return k.epoch < w.units[u].got.all.epoch })
}

// before are all units that may hold earlier records of a unit's keys.
func (w *world) before(unit int) (all []int) {
	from, to := w.parents(unit)
	for u := from; u < to; u++ {
		all = append(append(all, u), w.before(u)...)
	}
	return all
}

// related are all units that may hold records of a unit's keys, without itself.
func (w *world) related(unit int) []int {
	all := w.before(unit)
	for u := unit + 1; u < len(w.units); u++ {
		if slices.Contains(w.before(u), unit) {
			all = append(all, u)
		}
	}
	return all
}
