package core

import (
	"errors"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// kind is the purpose of a write.
type kind uint8

const (
	wMeta kind = iota + 1
	wJoin
	wPlan
	wExpire
	wCommit
	wHandoff
	wClaim
)

// write is one transaction and how to handle its outcome.
type write struct {
	kind       kind
	txn        registry.Txn
	meta       *protocol.Meta
	member     protocol.Member
	session    string
	life       string // that a join was sent in
	plan       *protocol.Assignment
	unit       int
	epoch      int64
	owner      protocol.Owner
	checkpoint *protocol.Checkpoint // put by it; nil: none
	sent       uint64               // the step that sent it
}

// call is one Apply under way.
type call struct {
	id     uint64
	writes []write
}

// outcome is the outcome of a write.
type outcome uint8

const (
	done        outcome = iota + 1
	conflict            // certainly not applied: a check failed
	refused             // certainly not applied: its session has ended
	unavailable         // certainly not applied: try again later
	unknown             // only a look at the store can tell
)

func fate(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, registry.ErrConflict):
		return conflict
	case errors.Is(err, registry.ErrFenced):
		return refused
	case errors.Is(err, registry.ErrUnavailable), errors.Is(err, fault.NotDone):
		return unavailable
	}
	return unknown
}

func (s *State) applied(ev Applied) {
	i := slices.IndexFunc(s.pending, func(c call) bool { return c.id == ev.ID })
	if i < 0 {
		return
	}
	writes := s.pending[i].writes
	s.pending = slices.Delete(s.pending, i, i+1)
	var failed error
	for k := range writes {
		res := registry.Result{Err: ev.Err}
		if ev.Err == nil {
			res = ev.Results[k]
		}
		o := fate(res.Err)
		switch {
		case o == done || o == conflict:
			s.storeWorks(true)
		case o == unavailable:
			failed = res.Err
		case o == unknown && !errors.Is(res.Err, registry.ErrUnknown): // not a failure that passes soon
			failed = res.Err
			s.commitAt = s.now + retryUnit
		}
		s.written(&writes[k], o, &res)
		if s.exited {
			return
		}
	}
	if failed != nil {
		s.writesFail = true
		s.storeFailed("writing to the group", failed)
	}
}

func (s *State) written(w *write, o outcome, res *registry.Result) {
	switch w.kind {
	case wMeta:
		s.metaWritten(w, o, res.Versions)
	case wJoin:
		s.memberWritten(w, o, res.Versions)
	case wPlan:
		s.planWritten(w, o, res.Versions)
	case wExpire:
		s.wantLoad = true // the reading shows the outcome
	case wCommit:
		s.committing = false
		s.unitWritten(w, o, res)
	case wHandoff, wClaim:
		s.unitWritten(w, o, res)
	}
}

// unitWritten takes the outcome of a write of a unit's owner or checkpoint.
func (s *State) unitWritten(w *write, o outcome, res *registry.Result) {
	u := &s.units[w.unit]
	u.write, s.touched = 0, true
	if o == unavailable {
		u.dirty = u.dirty || w.kind == wCommit
		return
	}
	if o == done {
		s.unitStored(w, res.Versions)
		return
	}
	u.owner.doubt(s.step)
	u.point.doubt(s.step)
	s.wantLoad = true
	u.dirty = u.dirty || w.kind == wCommit
	// The first check of a commit or handoff is the fence. The handlers are stopped before looking
	// for the new owner.
	if o == conflict && res.Failed == 0 && w.kind != wClaim {
		s.lose(w.unit, "", "the store refused a write: the unit has another owner or epoch")
	}
}

// unitStored puts a write that was applied into the view, and acts on it. The answer may have been
// so slow that the view is newer than the write; then the view stays.
func (s *State) unitStored(w *write, versions []registry.Version) {
	u, v := &s.units[w.unit], &s.view.Units[w.unit]
	if w.checkpoint != nil {
		if s.stored(&u.point, w, v.CheckpointVersion, w.txn.Checks[1].Version, versions[0]) {
			v.Checkpoint, v.CheckpointVersion, v.CheckpointDamage, u.stored = w.checkpoint, versions[0], nil, versions[0]
		}
		versions = versions[1:]
		s.out = append(s.out, Report{Kind: Committed, Unit: w.unit, Epoch: w.epoch})
	}
	if w.kind == wCommit {
		return
	}
	from, current := v.Owner.Member, s.stored(&u.owner, w, v.OwnerVersion, w.txn.Checks[0].Version, versions[0])
	u.wrote = s.step
	if current {
		v.Owner, v.OwnerVersion, v.OwnerDamage = w.owner, versions[0], nil
	}
	u.seen = max(u.seen, w.owner.Epoch)
	switch {
	case w.kind == wHandoff:
		u.granted, u.dirty = false, false
		s.out = append(s.out, Report{Kind: HandedOver, Unit: w.unit, Epoch: w.owner.Epoch, From: s.cfg.Member, To: w.owner.Member, Text: w.owner.Reason})
	case current:
		s.own(w.unit, from)
	}
}

// stored notes that a write is done which replaced one version by another, and reports whether it
// belongs into the view, which has a third, or one of them.
func (s *State) stored(e *entry, w *write, has, before, after registry.Version) (current bool) {
	current, again := e.wrote(w, s.loadStep, s.viewStep, has, before, after)
	if again { // nothing is begun on it before the next reading
		e.doubt(s.step)
		s.wantLoad = true
	}
	return current
}
