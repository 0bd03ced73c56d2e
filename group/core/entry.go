package core

import "github.com/ringfence/ringfence/registry"

// An answer's arrival is not its write's moment: the answer to a commit may come after a reading that was
// asked for later. Versions tell which of the two is newer. The simulation found five faults of this family.

// entry decides what a reading may overwrite of one known entry of the store. A reading that was
// under way while our own write was answered may be from before it; then it shows a version that our
// write replaced, and what we know stays. That is no reason to read again: a member at work always
// has a write under way.
type entry struct {
	asked uint64     // the step in which the last reading was asked for
	past  []replaced // what was replaced since then, in this order
	open  uint64     // the step since which only a reading asked for later decides; 0: none
}

// replaced is a version that a completed write of ours replaced.
type replaced struct {
	version registry.Version
	sent    uint64 // the step that sent the write
}

// doubt says that a write's outcome is unknown, or that a check failed: the view is behind.
func (e *entry) doubt(step uint64) { e.open = step }

// wrote notes a write that was done. The view has a version of a reading that was asked for in a step
// seen. current: the write belongs into the view. again: the reading should have shown it, unless it
// was the quicker one; a store that fails over may have lost the write, and gave its hint before.
func (e *entry) wrote(w *write, asked, seen uint64, has, before, after registry.Version) (current, again bool) {
	if e.asked != asked {
		e.asked, e.past = asked, e.past[:0]
	}
	e.past = append(e.past, replaced{version: before, sent: w.sent})
	return has == before || has == after, has == before && seen > w.sent
}

// read takes the version that a reading shows, which was asked for in that step. keep: what is known
// is newer. again: another reading has to decide.
func (e *entry) read(asked uint64, shown registry.Version) (keep, again bool) {
	if e.open > asked {
		again = true
	} else {
		e.open = 0
	}
	if e.asked != asked {
		return false, again
	}
	last := len(e.past) - 1
	for i := range e.past {
		if e.past[i].version == shown {
			// A later write that built on this version has seen it in the store. A failover after
			// that gives a hint that is still to come.
			return true, again || i == last && e.past[i].sent < asked
		}
	}
	return false, again
}

// since reports whether a write was answered since a reading was asked for.
func (e *entry) since(asked uint64) bool {
	return e.open > asked || e.asked == asked && len(e.past) > 0
}
