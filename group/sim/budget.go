package sim

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/registry"
)

// budget bounds how often a member reads the group. Each reading needs a reason: a hint, a session, a
// worker that ended, a write that was refused or has an unknown outcome, a failed reading, a unit that comes after
// others and got an owner, or the time for a sweep. A completed write is none: a member at work would read for ever.
type budget struct {
	reasons, readings int
	began             time.Duration
}

const spare = 10 // readings without a reason, of a whole history

func (b *budget) allow(ev core.Event) {
	switch e := ev.(type) {
	case core.Changed, core.SessionOpened, core.SessionLost, core.UnitEnded, core.Grown:
		b.reasons++
	case core.Loaded:
		if e.Err != nil {
			b.reasons++
		}
	case core.Applied:
		if e.Err != nil {
			b.reasons++
		}
		for i := range e.Results {
			if e.Results[i].Err != nil {
				b.reasons++
			}
		}
	}
}

func (b *budget) spend(n *node, e core.Effect) {
	if a, ok := e.(core.Apply); ok {
		b.reasons += n.owned(a.Txns)
	}
	if _, ok := e.(core.Load); !ok {
		return
	}
	if b.readings == 0 {
		b.began = n.w.now
	}
	b.readings++
	limit := spare + b.reasons
	if n.w.plan.sweep > 0 {
		limit += int((n.w.now - b.began) / n.w.plan.sweep)
	}
	if b.readings > limit {
		n.w.fail("%s reads the group for the %dth time and had reason to for %d", n, b.readings, limit)
	}
}

// owned counts the owners in writes, of units that come after others.
func (n *node) owned(txns []registry.Txn) (owners int) {
	for _, t := range txns {
		for _, p := range t.Puts {
			if u := slices.Index(n.w.store.owners, p.Key); u >= 0 && n.w.units[u].storage > 0 {
				owners++
			}
		}
	}
	return owners
}
