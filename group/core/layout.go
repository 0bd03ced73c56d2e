package core

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// Layout says for each unit what it reads of what the group consumes, and which others come before
// it. A group with one can grow: members learn of more units, and agree on them through the store.
// Nil: the number of units is fixed and each is on its own.
type Layout []LayoutUnit

// LayoutUnit is one unit in a Layout.
type LayoutUnit struct {
	// Inputs are the partitions that the unit reads, each once, all of one storage topic: at least one,
	// at most protocol.MaxInputs. The checkpoint has a position for each.
	Inputs []UnitInput
	// The units From, From+Step, … below To must be finished before this one starts: they may hold
	// earlier records of its keys. From == To: there are none.
	From, To, Step int
}

// UnitInput is a partition that a unit reads.
type UnitInput struct {
	Storage, Partition int
	// End is the position at which the partition is finished for ever; -1: none yet.
	End int64
}

// ends reports whether all that the unit reads has a known end.
func (u *LayoutUnit) ends() bool {
	return !slices.ContainsFunc(u.Inputs, func(in UnitInput) bool { return in.End < 0 })
}

// finishedBy reports whether a checkpoint is at the end of all that the unit reads.
func (u *LayoutUnit) finishedBy(c *protocol.Checkpoint) bool {
	return !slices.ContainsFunc(u.Inputs, func(in UnitInput) bool { return !in.finishedBy(c) })
}

// storage is the storage topic that the unit reads from.
func (u *LayoutUnit) storage() int { return u.Inputs[0].Storage }

// newest is the first unit of the newest storage topic. That takes records, or will: no unit of it is passed.
func (l Layout) newest() int {
	first := len(l) - 1
	for first > 0 && l[first-1].storage() == l[first].storage() {
		first--
	}
	return first
}

func (p *UnitInput) finishedBy(c *protocol.Checkpoint) bool {
	if p.End <= 0 {
		return p.End == 0
	}
	at := c.Position(p.Storage, p.Partition)
	return at != nil && at.Next >= p.End
}

// finished reports whether a unit is finished for ever according to the store: sealed, and every checkpoint at
// the end. What this process saw does not count. A passed unit without a checkpoint is finished, as only
// retirement removes one.
func (s *State) finished(n int) bool {
	passed, v := n < s.view.Meta.First, &s.view.Units[n]
	if n < len(s.layout) && s.layout[n].ends() {
		// The checkpoint of a passed unit goes when it is retired, which this member may not have
		// heard of yet.
		return s.layout[n].finishedBy(v.Checkpoint) || passed && v.Checkpoint == nil
	}
	return passed
}

// over reports whether a unit of ours is at its end, which the store may not know yet; or the store knows it, and the
// end was not heard here.
func (s *State) over(n int) bool {
	u := &s.units[n]
	return n < len(s.layout) && (s.layout[n].finishedBy(u.checkpoint) || n < s.view.Meta.First)
}

// gate finds the units that may run: their parents are finished, and could run themselves. A parent
// that is finished because it is empty may have unfinished parents.
func (s *State) gate() {
	s.gates, s.spent = s.gates[:0], s.spent[:0]
	if len(s.layout) == 0 {
		return
	}
	s.spend()
	pending := make([]int, len(s.units)+1) // units below that are not both open and finished
	for n := range s.units {
		open := n < len(s.layout) && s.opens(&s.layout[n], pending)
		s.gates = append(s.gates, open)
		pending[n+1] = pending[n]
		if !open || !s.finished(n) {
			pending[n+1]++
		}
	}
}

func (s *State) opens(p *LayoutUnit, pending []int) bool {
	if p.Step <= 1 {
		return pending[p.To] == pending[p.From]
	}
	for q := p.From; q < p.To; q += p.Step {
		if pending[q+1] != pending[q] {
			return false
		}
	}
	return true
}

// mayRun reports whether all that comes before a unit is finished.
func (s *State) mayRun(n int) bool { return len(s.layout) == 0 || s.gates[n] }

// grown takes a newer layout. One with fewer units is older than what we know.
func (s *State) grown(l Layout) {
	if len(s.layout) == 0 || len(l) < len(s.layout) {
		return
	}
	s.layout, s.touched, s.plan.seen = l, true, false
	s.fit(len(l))
}

// fit makes room for so many units, here and in the view, which has none of the new ones yet.
func (s *State) fit(units int) {
	for len(s.units) < units {
		s.units = append(s.units, unit{})
	}
	if s.view != nil && s.view.Meta != nil {
		s.pad(s.view)
	}
}

func (s *State) pad(view *protocol.State) {
	for n := len(view.Units); n < len(s.units); n++ {
		view.Units = append(view.Units, protocol.Unit{Number: n})
	}
}

// small reports whether the group in the store has fewer units than this member knows: it has not
// grown yet, or the store went back.
func (s *State) small() bool { return s.view.Meta.Units < len(s.units) }

// grow writes what the group has become: more units, or the next ones to work on. No unit is
// decided before the store has all of them.
func (s *State) grow() {
	if !s.ready() || s.metaWriting || !s.small() {
		return
	}
	s.writeMeta(s.view.Meta.Grown(len(s.units)), nil)
}

// firstBatch bounds how many units one write marks as passed, as each is a check.
const firstBatch = 60

// passed returns the first unit to work on, if it differs from the stored one: when all of a
// storage topic are finished they go together, as each step makes a new plan.
func (s *State) passed() (first int, ok bool) {
	first = s.view.Meta.First
	if first >= len(s.layout) {
		return first, false
	}
	storage, to := s.layout[first].storage(), first
	for ; to < len(s.layout) && s.layout[to].storage() == storage; to++ {
		if !s.layout[to].ends() || !s.finished(to) {
			return first, false
		}
	}
	return min(to, first+firstBatch), to < len(s.layout)
}

// passAt is when it is our turn to write that units are passed.
func (s *State) passAt() time.Duration {
	if len(s.layout) == 0 || !s.ready() || s.small() || s.metaWriting {
		return 0
	}
	if _, ok := s.passed(); !ok {
		s.passSince = 0
		return 0
	}
	if s.passSince == 0 {
		s.passSince = s.now
	}
	return s.turn(s.passSince)
}

// pass writes that units are passed, under a check that they were not sent back.
func (s *State) pass() {
	at := s.passAt()
	if at == 0 || s.now < at {
		return
	}
	first, _ := s.passed()
	meta := *s.view.Meta
	var checks []registry.Check
	for n := meta.First; n < first; n++ {
		checks = append(checks, registry.Check{Key: s.cfg.Group.CheckpointKey(n), Version: s.view.Units[n].CheckpointVersion})
	}
	meta.First = first
	s.writeMeta(meta, checks)
}

// defined is the check that what the group consumes still has the definition last seen.
func (s *State) defined() []registry.Check {
	if s.cfg.Defined == nil {
		return nil
	}
	return []registry.Check{s.cfg.Defined()}
}

// redefined makes the definition be read anew when a write under defined was refused: that may be the reason.
func (s *State) redefined(o outcome, under bool) {
	s.wantLayout = s.wantLayout || o == conflict && under && s.cfg.Defined != nil
}

func (s *State) writeMeta(meta protocol.Meta, checks []registry.Check) {
	s.metaWriting = true
	checks = append(checks, s.defined()...)
	s.batch = append(s.batch, write{kind: wMeta, meta: &meta, txn: s.cfg.Group.MetaTxn(meta, s.view.MetaVersion, checks...)})
}

// metaWritten takes the outcome.
func (s *State) metaWritten(w *write, o outcome, versions []registry.Version) {
	s.metaWriting, s.touched = false, true
	if o == unavailable {
		return
	}
	if o != done {
		s.meta.doubt(s.step)
		s.viewStep, s.wantLoad = 0, true
		s.redefined(o, true)
		return
	}
	if s.stored(&s.meta, w, s.view.MetaVersion, w.txn.Checks[0].Version, versions[0]) {
		s.view.Meta, s.view.MetaVersion, s.plan.seen = w.meta, versions[0], false
		s.fit(w.meta.Units)
	}
}
