package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
)

// settled reports whether the group has come to rest: each unit runs where the assignment says, and
// nothing is left to do.
func (w *world) settled() bool { return w.unsettled() == "" }

// unsettled says what is still missing.
func (w *world) unsettled() string {
	var why []string
	plan := doc[protocol.Assignment](w.store, w.store.assignment)
	meta := doc[protocol.Meta](w.store, w.store.meta)
	if l := w.layout(); l != nil && meta.Units != len(l) {
		why = append(why, fmt.Sprintf("the group has %d units, not %d", meta.Units, len(l)))
	}
	units := w.storages[w.shown-1].first + w.storages[w.shown-1].count
	for u := range units {
		if w.over(u) {
			why = append(why, w.notAtRest(u, &meta, &plan)...)
			continue
		}
		o, version := w.store.owner(u)
		switch n := w.owner(o); {
		case n == nil:
			why = append(why, fmt.Sprintf("unit %d belongs to %s@%s, which is not up", u, o.Member, o.Incarnation))
			continue
		case len(plan.Targets) != units || plan.Targets[u] != o.Member:
			why = append(why, fmt.Sprintf("unit %d belongs to %s and should not (%v)", u, o.Member, plan.Targets))
		case w.waits(u) && n.workers[u] != nil:
			why = append(why, fmt.Sprintf("unit %d has a worker and should wait", u))
		case w.waits(u):
		case n.workers[u] == nil || n.workers[u].epoch != o.Epoch || n.workers[u].draining || n.workers[u].cancelled:
			why = append(why, fmt.Sprintf("unit %d of %s has no worker of epoch %d (%s)", u, n, o.Epoch, version))
		case n.workers[u].refused():
			why = append(why, fmt.Sprintf("unit %d of %s goes on in epoch %d, and receivers refuse that", u, n, o.Epoch))
		}
		for _, p := range w.units[u].parts {
			if !w.waits(u) && !p.over() {
				why = append(why, fmt.Sprintf("the checkpoint of unit %d is %v, the end of partition %d is %d", u, w.store.positions(u), p.number, len(p.keys)))
			}
		}
	}
	for _, n := range w.live() {
		if m := doc[protocol.Member](w.store, w.group.MemberKey(n.name)); m.Incarnation != n.incarnation {
			why = append(why, fmt.Sprintf("%s is up and no member", n))
		}
	}
	return strings.Join(why, "; ")
}

// waits reports whether a unit may not run yet. In the end only units of storage topics without
// records wait.
func (w *world) waits(unit int) bool { return w.units[unit].storage > w.current }

// notAtRest says what is left to do for a unit that is finished.
func (w *world) notAtRest(u int, meta *protocol.Meta, plan *protocol.Assignment) (why []string) {
	for _, n := range w.live() {
		if n.workers[u] != nil {
			why = append(why, fmt.Sprintf("unit %d is finished and has a worker on %s", u, n))
		}
	}
	if s := &w.storages[w.units[u].storage]; u >= meta.First && w.allOver(s) {
		why = append(why, fmt.Sprintf("unit %d is finished with its storage topic, and the group is at %d still", u, meta.First))
	}
	if u < meta.First && u < len(plan.Targets) && plan.Targets[u] != "" {
		why = append(why, fmt.Sprintf("unit %d is finished and still assigned to %s", u, plan.Targets[u]))
	}
	return why
}

func (w *world) allOver(s *storage) bool {
	for u := s.first; u < s.first+s.count; u++ {
		if !w.over(u) {
			return false
		}
	}
	return true
}

// owner finds the process that the owner entry names.
func (w *world) owner(o protocol.Owner) *node {
	for _, n := range w.nodes {
		if n.name == o.Member && n.incarnation == o.Incarnation && n.up() {
			return n
		}
	}
	return nil
}

// leave makes all members leave in order, in some histories, and checks that they get away.
func (w *world) leave() {
	if !w.chance(4) {
		return
	}
	leaving := w.live()
	for _, n := range leaving {
		w.later(w.upTo(w.plan.ttl), n.stop)
	}
	patience := 2*w.plan.ttl + 2*w.plan.drain + 4*w.plan.grace
	gone := func() bool { return !slices.ContainsFunc(leaving, (*node).up) }
	if !w.until(w.now+patience, gone) && w.err == nil {
		w.err = fmt.Errorf("members that were asked to leave are still there after %s", patience)
	}
	for _, n := range leaving {
		if n.exit != nil && w.err == nil {
			w.err = fmt.Errorf("%s was asked to leave a healthy group and ended with: %w", n, n.exit)
		}
	}
}

// calm adds what must hold in histories without certain faults.
func (w *world) calm(r *history.Report) error {
	if w.forced == 0 && !w.hasAny(Freeze, Seeks, Rollback, Eviction, Twin, Static, Delay, Hang, LateJoin) && r.Stale > 0 {
		return fmt.Errorf("%d deliveries by members whose lease should have told them that they are replaced", r.Stale)
	}
	disturbing := []Fault{
		Loss, Delay, LostReply, Torn, Crash, Restart, Twin, Freeze, Outage, Partition, Rollback, Seeks, Hang, Errors, Static, Eviction,
		Deletion, Suspend, LateJoin,
	}
	if w.hasAny(disturbing...) {
		return nil
	}
	if r.Duplicated+r.Failed > 0 {
		return fmt.Errorf("%d duplicates and %d interrupted handlers, though members only came and left in order", r.Duplicated, r.Failed)
	}
	if n := w.interrupted(); n > 0 && !w.hasAny(Control) {
		return fmt.Errorf("%d times a worker was started again in the same epoch, though its unit stayed where it was", n)
	}
	return nil
}

// interrupted counts the unneeded starts of workers: the unit was not asked to move.
func (w *world) interrupted() (times int) {
	for _, p := range w.units {
		for epoch, n := range p.starts {
			if !p.asked[epoch] {
				times += n - 1
			}
		}
	}
	return times
}

func (w *world) hasAny(kinds ...Fault) bool {
	return slices.ContainsFunc(kinds, func(f Fault) bool { return w.plan.has[f] })
}

// handsOver reports whether a write of this node passes on a unit that it held and has drained. It
// does not after giving up on handlers that never return, or when the write took so long that the
// node had gone on without it.
func (n *node) handsOver(unit int, was, is protocol.Owner) bool {
	if n == nil || n.lateCall || is.Member == n.name || was.Member != n.name || was.Incarnation != n.incarnation {
		return false
	}
	return !n.gaveUp[unit]
}
