package history

import (
	"math"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
)

// What is demanded of owners and their checkpoints. Processes tell late, and in any order, of what they did: so a new
// owner, and a commit, is held against the tenures before and behind it by epoch.
//
// After a seek, records between are done again. After a store went back, what later owners did does not count, and
// their epochs must not be given again.

func (c *Checker) owned(e *Event) {
	u := c.unit(e.Unit)
	if t := u.tenures[e.Epoch]; t != nil {
		if t.owned.who() != e.who() {
			c.report.violate(OneOwner, []Event{t.owned, *e}, "unit %d has two owners in epoch %d", e.Unit, e.Epoch)
		}
		return
	}
	if newer := u.newer(e.Epoch, e.began()); newer != nil {
		c.report.violate(EpochsIncrease, []Event{*newer, *e}, "unit %d went from epoch %d to %d", e.Unit, newer.Epoch, e.Epoch)
	}
	if c.cfg.Exact && (e.After != u.newest() && !u.rolledBack || e.Epoch <= u.newest()) {
		c.report.violate(EpochsIncrease, []Event{*e}, "unit %d went to epoch %d from %d, not from %d", e.Unit, e.Epoch, e.After, u.newest())
	}
	t := &tenure{owned: *e, start: cover(e.Positions)}
	t.last = t.start
	for _, old := range u.undone {
		// A write that was under way can't know of the forgotten epoch (docs/design/fence-and-epoch.md); a later one can.
		if old.owned.Epoch == e.Epoch && !e.Crossed {
			c.report.violate(OneOwner, []Event{old.owned, *e}, "unit %d: epoch %d was given before the store went back, and is given again", e.Unit, e.Epoch)
		}
	}
	c.takeover(u, t)
	u.add(t)
}

// takeover compares what a new owner starts from with what its predecessors did.
func (c *Checker) takeover(u *unit, t *tenure) {
	e := &t.owned
	before, after := u.neighbours(e.Epoch)
	if len(u.epochs) == 0 && len(u.seeks) == 0 {
		for at := range t.start {
			c.partition(at).excuse(0, t.start[at].Next)
		}
	}
	for _, at := range inOrder(t.start) {
		p := c.partitionOf(e.Unit, at)
		c.passed(e, p, at, t.start[at], func(o int64) bool {
			return p.finished[o].top != 0 || p.isExcused(o) || before != nil && before.last.has(at, o)
		})
	}
	if before != nil {
		c.compare(before, t)
	}
	if after != nil {
		c.compare(t, after)
	}
	if e.Member != "" {
		c.inFlight(u, t)
	}
	switch {
	case e.Handoff:
		c.report.Handoffs++
		if before != nil && before.owned.Epoch == e.After {
			c.handoff(before, t)
		}
	case e.Member != "":
		c.report.Takeovers++
	}
}

// inFlight counts what the new owner may have to repeat.
func (c *Checker) inFlight(u *unit, t *tenure) {
	for _, n := range u.epochs {
		if old := u.tenures[n]; n < t.owned.Epoch && u.soughtBetween(n, t.owned.Epoch) && !old.replaced {
			c.report.InFlight += int64(old.running) // a seek forgot what was started
			old.replaced = true
		}
	}
	c.uncovered(t.owned.Unit, t.start)
}

// rejoined lets a member begin again at the checkpoints of the units that it still has.
func (c *Checker) rejoined(e *Event) {
	for n, u := range c.units {
		t := u.tenures[u.newest()]
		if t == nil || t.owned.who() != e.who() {
			continue
		}
		t.rejoined++
		c.uncovered(n, t.last)
	}
}

// uncovered counts what was started in a unit's partitions and is not below a checkpoint.
func (c *Checker) uncovered(unit int, checkpoint coverage) {
	for _, at := range c.partitionsOf(unit) {
		p := c.parts[at]
		p.scan(checkpoint[at].Next, p.end, func(o int64, r *record) {
			if r.started && !checkpoint.has(at, o) {
				c.report.InFlight++
			}
		})
	}
}

// partitionsOf returns the partitions that the unit works on, in order.
func (c *Checker) partitionsOf(unit int) []place {
	return slices.DeleteFunc(inOrder(c.parts), func(at place) bool { return c.parts[at].unit != unit })
}

// handoff checks that the owner before had finished and passed on all that it began.
func (c *Checker) handoff(before, t *tenure) {
	if before.running > 0 {
		c.report.violate(CleanHandoff, []Event{before.owned, t.owned}, "unit %d was handed over while %d handlers were at work", t.owned.Unit, before.running)
	}
	if before.shaken {
		return
	}
	for _, at := range c.partitionsOf(t.owned.Unit) {
		p := c.parts[at]
		first, n := int64(math.MaxInt64), 0
		for o, by := range p.finished {
			if by.top == before.owned.Epoch && !t.start.has(at, o) {
				first = min(first, o)
				n++
			}
		}
		if n > 0 {
			c.report.violate(CleanHandoff, []Event{before.owned, t.owned}, "%d records of %s that the last owner finished are not in the checkpoint, the first is %d", n, at, first)
		}
	}
}

// compare checks that nothing that an owner committed is unknown to the next.
func (c *Checker) compare(before, after *tenure) {
	if gone := after.start.missing(before.last); gone != "" {
		c.report.violate(NeverBack, []Event{before.owned, before.lastCommit, after.owned}, "unit %d: %s", after.owned.Unit, gone)
	}
}

func (c *Checker) committed(e *Event) {
	switch e.Outcome {
	case Refused:
		c.report.Refused++
		return
	case Unknown:
		c.report.Unknown++
		return
	}
	c.report.Commits++
	u := c.unit(e.Unit)
	t, undone := c.tenure(u, e)
	if undone {
		c.report.violate(Fence, []Event{t.owned, *e}, "unit %d: the store has lost epoch %d, and still accepted its commit", e.Unit, e.Epoch)
		return
	}
	if newer := u.newer(e.Epoch, e.began()); newer != nil {
		c.report.violate(Fence, []Event{*newer, *e}, "unit %d was in epoch %d when a commit under epoch %d was accepted", e.Unit, newer.Epoch, e.Epoch)
	}
	now := cover(e.Positions)
	for _, at := range inOrder(now) {
		p := c.partitionOf(e.Unit, at)
		if c.cfg.Exact && now[at].Next > p.end {
			c.report.violate(NotPast, []Event{*e}, "the checkpoint of %s is beyond its end %d", at, p.end)
		}
		if !u.soughtAfter(e.Epoch) {
			c.passed(e, p, at, now[at], func(o int64) bool { return p.finished[o].top >= e.Epoch || t.start.has(at, o) })
		}
	}
	if gone := now.missing(t.last); gone != "" {
		c.report.violate(NeverBack, []Event{t.owned, t.lastCommit, *e}, "unit %d: %s", e.Unit, gone)
	}
	t.last, t.lastCommit = now, *e
	if _, after := u.neighbours(e.Epoch); after != nil {
		c.compare(t, after)
	}
}

// passed checks that all records that a checkpoint covers are finished, and moves the frontier.
func (c *Checker) passed(e *Event, p *partition, at place, pos protocol.Position, ok func(offset int64) bool) {
	for _, r := range pos.Done {
		p.scan(max(r[0], p.frontier), r[1], func(o int64, _ *record) {
			if !ok(o) {
				c.report.violate(NotPast, []Event{*e}, "record %d of %s is not finished, but marked as such", o, at)
			}
		})
	}
	if first, n := p.pass(pos.Next, !c.cfg.Exact, ok); n > 0 {
		c.report.violate(NotPast, []Event{*e}, "%d records of %s below %d are not finished, the first is %d", n, at, pos.Next, first)
	}
}

func (c *Checker) seek(e *Event) {
	c.report.Seeks++
	u := c.unit(e.Unit)
	u.seeks = append(u.seeks, e.Epoch)
	u.resets++
	for _, pos := range e.Positions {
		undone := c.partitionOf(e.Unit, place{pos.Storage, pos.Partition}).seek(pos.Next)
		c.report.Delivered -= undone
	}
}

// revive takes back the tenure of an epoch that the store knows again: it went back to before a deletion.
func (u *unit) revive(epoch int64) {
	i := slices.IndexFunc(u.undone, func(t *tenure) bool { return t.owned.Epoch == epoch })
	if i >= 0 && u.newest() < epoch {
		u.add(u.undone[i])
		u.undone = slices.Delete(u.undone, i, i+1)
	}
}

// rollback puts a unit back to where the store says it is; what owners of later epochs did does not count.
func (c *Checker) rollback(e *Event) {
	c.report.Rollbacks++
	u := c.unit(e.Unit)
	u.resets++
	u.rolledBack = true
	for len(u.epochs) > 0 && u.newest() > e.Epoch {
		n := u.newest()
		u.undone = append(u.undone, u.tenures[n])
		delete(u.tenures, n)
		u.epochs = u.epochs[:len(u.epochs)-1]
	}
	u.seeks = slices.DeleteFunc(u.seeks, func(n int64) bool { return n > e.Epoch })
	u.revive(e.Epoch)
	now := cover(e.Positions)
	if t := u.tenures[e.Epoch]; t != nil {
		t.last, t.shaken = now, true
	}
	for at, pos := range now {
		p := c.partitionOf(e.Unit, at)
		c.report.Delivered -= p.restore(pos, e.Epoch)
		p.scan(pos.Next, p.end, func(o int64, r *record) {
			if r.started && !now.has(at, o) {
				c.report.InFlight++
			}
		})
	}
}
