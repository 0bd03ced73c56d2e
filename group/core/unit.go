package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// Each step decides a unit anew from three things: its owner in the view, the grant of this member, and the
// state of its worker (none, running, draining, stopping, abandoned). The way there does not matter, so
// anything lost, be it a hint, an answer or the session, needs no case of its own.
//
// Invariants. A unit with a write of unknown outcome is left alone until a reading shows the outcome.
// grant.Version is the fence: it is the version of the owner entry as it was given, and another one in the
// view, or a check that fails on it, ends the ownership at once. A unit is claimed when its owner does not
// live, or when the owner has outlasted its own deadlines; no consent is needed, as the fence makes it safe.
// A live owner drains and hands over, with the checkpoint in the same write, so no record is handled twice by
// a successful move. An epoch never falls, even in a store that went back: it lies above all that were seen,
// and above the store's time.

// reconcile takes the next step for a unit, from the store's view and the local state.
func (s *State) reconcile(n int) {
	u, v := &s.units[n], &s.view.Units[n]
	if u.write != 0 || u.unsure() {
		return // its outcome is not known yet
	}
	if u.granted && v.OwnerVersion != u.grant.Version {
		why := fmt.Sprintf("epoch %d of %q began: %s", v.Owner.Epoch, v.Owner.Member, v.Owner.Reason)
		if v.OwnerDamage != nil {
			why = "something that can't be read was written over its owner"
		}
		s.lose(n, v.Owner.Member, why)
	}
	u.seen = max(u.seen, v.Owner.Epoch)
	switch {
	case !u.granted && v.Damage() != nil:
		s.tellDamage(n)
	case !u.granted:
		s.acquire(n)
	case u.stored != v.CheckpointVersion && (u.checkpoint == nil || s.cfg.WorkersCommit && !u.told):
		u.stored, u.checkpoint = v.CheckpointVersion, v.Checkpoint // the worker stored its start itself, or all
	case u.stored != v.CheckpointVersion:
		// A write of ours whose outcome was unknown, or a store that went back to an older state:
		// only we may write it, and what we know is the newest.
		u.stored, u.dirty = v.CheckpointVersion, true
	}
	if u.granted {
		s.hold(n)
	} else if u.worker == abandoned {
		s.evict(n)
	}
}

// tellDamage reports, once, why no member takes the unit: its owner may live and must not be overtaken, and
// where to begin is unknown. The other units go on.
func (s *State) tellDamage(n int) {
	u, v := &s.units[n], &s.view.Units[n]
	if seen := [2]registry.Version{v.OwnerVersion, v.CheckpointVersion}; u.damaged != seen {
		u.damaged = seen
		s.out = append(s.out, Report{Kind: Trouble, Unit: n, Epoch: u.seen, Text: "no member works on it before a seek", Err: v.Damage()})
	}
}

// unsure reports whether the view is known to be behind.
func (u *unit) unsure() bool { return u.owner.open != 0 || u.point.open != 0 }

// acquire takes a unit that was handed to us, or that is ours to take.
func (s *State) acquire(n int) {
	u, v := &s.units[n], &s.view.Units[n]
	o := &v.Owner
	waiting := false
	switch {
	case s.isMine(o) && o.Epoch >= u.seen:
		s.own(n, u.from)
	case s.isMine(o) && !s.leaving && u.worker == none:
		s.claim(n, fmt.Sprintf("the store went back from epoch %d to %d", u.seen, o.Epoch), "")
	case s.leaving || s.plan.targets[n] != s.cfg.Member || u.worker != none || s.finished(n):
	case len(s.layout) != 0 && n >= len(s.layout): // it has not heard of the unit yet, and could not work on it
	case !s.view.Alive(*o) && o.Member != "" && o.Member != s.cfg.Member && s.now < s.calmUntil:
	case !s.view.Alive(*o):
		s.claim(n, s.whyFree(o), o.Member)
	case s.unknown(o.Member):
		// Of its owner nothing is known but that its session lives; a newer version may have written it.
	case s.plan.current:
		// Its owner lives and should hand it over. If it has not, though its own deadline must have
		// passed, it hangs: the fence makes taking it safe.
		patience := s.cfg.DrainTimeout + 2*s.cfg.CancelGrace + s.cfg.SessionTTL
		if u.waitTill == 0 || u.waitFor != v.OwnerVersion {
			u.waitFor, u.waitTill = v.OwnerVersion, s.now+patience
		}
		waiting = s.now < u.waitTill
		if !waiting {
			s.claim(n, fmt.Sprintf("%s did not hand it over within %s", o.Member, patience), "")
		}
	}
	if !waiting {
		u.waitTill = 0
	}
}

func (s *State) isMine(o *protocol.Owner) bool {
	return o.Epoch > 0 && o.Member == s.cfg.Member && o.Incarnation == s.cfg.Incarnation
}

func (s *State) whyFree(o *protocol.Owner) string {
	switch {
	case o.Epoch == 0:
		return "first owner"
	case o.Member == "":
		return "it was free: " + o.Reason
	}
	if _, ok := s.find(o.Member); ok {
		return o.Member + " restarted"
	}
	return o.Member + " is gone: its session ended"
}

// claim takes a unit that has no owner, or a dead one. Its checks include the checkpoint, so that it
// is the one to start from when the claim is applied, and that the dead have not come back.
func (s *State) claim(n int, why, dead string) {
	u, v := &s.units[n], &s.view.Units[n]
	owner := protocol.Owner{
		Member: s.cfg.Member, Incarnation: s.cfg.Incarnation, Epoch: s.nextEpoch(n), After: v.Owner.Epoch, Reason: why, Since: s.wall,
	}
	claim := protocol.Claim{Unit: n, Owner: owner, Last: v.OwnerVersion, Checkpoint: v.CheckpointVersion, Self: s.member, Dead: dead}
	if dead != "" { // gone, or in another incarnation
		claim.DeadVersion = s.placeOf(dead)
	}
	u.write = wClaim
	s.batch = append(s.batch, write{kind: wClaim, unit: n, owner: owner, txn: s.cfg.Group.ClaimTxn(claim)})
}

// nextEpoch is the epoch of the unit's next owner. It is above all that were seen, and above those
// that a store which went back has forgotten: they were given before its present time. And it is above those in
// which other units may have handed out the same keys.
func (s *State) nextEpoch(n int) int64 {
	last := max(s.view.Units[n].Owner.Epoch, s.units[n].seen, s.above(n))
	return protocol.NextEpoch(last, s.view.Time+(s.now-s.viewAt).Milliseconds())
}

// own begins the ownership that the view shows.
func (s *State) own(n int, from string) {
	u, v := &s.units[n], &s.view.Units[n]
	u.granted, u.seen = true, max(u.seen, v.Owner.Epoch)
	u.grant = protocol.Grant{Unit: n, Epoch: v.Owner.Epoch, Version: v.OwnerVersion}
	u.checkpoint, u.stored, u.dirty, u.told = v.Checkpoint, v.CheckpointVersion, false, false
	u.leftBehind, u.behind, u.cut = false, false, false
	u.failures, u.stuck, u.hung, u.retryAt, u.waitTill, u.why = 0, 0, false, 0, 0, v.Owner.Reason
	s.out = append(s.out, Report{Kind: Assigned, Unit: n, Epoch: u.grant.Epoch, From: from, To: s.cfg.Member, Text: u.why})
}

// lose ends the ownership: the owner entry was written, for a member that may be unknown, or this
// one.
func (s *State) lose(n int, to, why string) {
	u := &s.units[n]
	u.granted, u.dirty = false, false
	err := fmt.Errorf("unit %d of group %q, epoch %d: %s: %w", n, s.cfg.Group.Name(), u.grant.Epoch, why, registry.ErrFenced)
	s.out = append(s.out, Report{Kind: Fenced, Unit: n, Epoch: u.grant.Epoch, From: s.cfg.Member, To: to, Text: why})
	s.stopWorker(n, err)
}

// hold runs a unit that is ours, or releases it.
func (s *State) hold(n int) {
	u := &s.units[n]
	target := s.plan.targets[n]
	_, taken := s.taker(target)
	mine := target == s.cfg.Member
	move := s.plan.current && !mine && taken
	switch u.worker {
	case running:
		switch {
		case s.over(n):
			s.drain(n, "finished")
		case s.leaving:
			s.drain(n, s.cfg.Member+" leaves")
		case move:
			s.drain(n, "moves to "+target+": "+s.plan.reason)
		case s.paused(n):
			s.drain(n, "paused")
		case !s.mayRun(n):
			s.drain(n, "waits for earlier units, which were sent back")
		case s.outdone(n):
			s.drain(n, "earlier units were sent back")
		}
	case none, abandoned:
		switch {
		case s.over(n): // even with a handler left behind: it can't be at a record below the end
			s.handoff(n, "", "finished by "+s.cfg.Member)
		case s.leaving && s.cfg.Static: // kept for the restart
		case move:
			s.handoff(n, target, s.parting(n)+s.cfg.Member+": "+s.plan.reason)
		case s.leaving && s.plan.current:
			s.handoff(n, "", "released by "+s.cfg.Member+": it leaves")
		case s.leaving:
		case (u.worker == abandoned || u.hung) && s.evict(n):
		case u.worker == abandoned:
		case s.forgotten(n):
			s.tellDamage(n)
		case (mine || s.plan.current || s.now < s.calmUntil) && !s.paused(n) && s.mayRun(n) && s.now >= u.retryAt:
			switch {
			case u.leftBehind:
				s.handoff(n, s.cfg.Member, fmt.Sprintf("a handler of epoch %d on %s never came back", u.grant.Epoch, s.cfg.Member))
			case u.behind: // as the store once was, or another one with the same log
				s.handoff(n, s.cfg.Member, fmt.Sprintf("records of epoch %d were there already", u.seen))
			case !s.fresh(n):
			case u.grant.Epoch <= s.above(n): // what it hands out would be refused
				s.handoff(n, s.cfg.Member, fmt.Sprintf("its keys were handed out in epoch %d before", s.above(n)))
			default:
				s.start(n)
			}
		}
	}
}

// forgotten reports whether the checkpoint of a unit of ours was overwritten, and is not known here either.
func (s *State) forgotten(n int) bool {
	u, v := &s.units[n], &s.view.Units[n]
	return v.CheckpointDamage != nil && (u.checkpoint == nil || s.cfg.WorkersCommit)
}

func (s *State) start(n int) {
	u := &s.units[n]
	s.nextID++
	u.run, u.worker, u.deadline, u.retryAt = s.nextID, running, 0, 0
	u.runGrant = u.grant.Version
	s.out = append(s.out, StartUnit{Run: u.run, Grant: u.grant, Checkpoint: u.checkpoint, Why: u.why})
}

func (s *State) drain(n int, why string) {
	u := &s.units[n]
	u.worker, u.deadline = draining, s.now+s.cfg.DrainTimeout
	s.out = append(s.out, DrainUnit{Unit: n, Run: u.run, Deadline: u.deadline, Why: why})
}

// parting says, for people, whether the next owner repeats anything.
func (s *State) parting(n int) string {
	if s.units[n].cut {
		return "handed over without what its stopped handlers finished, by "
	}
	return "handoff from "
}

// stopWorker cancels a worker that still handles records, even one that is about to end: what it has
// begun may belong to another owner by now.
func (s *State) stopWorker(n int, cause error) {
	u := &s.units[n]
	if u.worker != running && u.worker != draining {
		return
	}
	u.worker, u.deadline, u.cut = stopping, s.now+s.cfg.CancelGrace, true
	s.out = append(s.out, StopUnit{Unit: n, Run: u.run, Cause: cause})
}

// late handles a worker that did not end in time.
func (s *State) late(n int) {
	u := &s.units[n]
	if u.deadline == 0 || s.now < u.deadline {
		return
	}
	switch u.worker {
	case draining:
		s.stopWorker(n, fmt.Errorf("unit %d: its handlers still ran %s after the drain began: %w", n, s.cfg.DrainTimeout, registry.ErrFenced))
	case stopping:
		u.worker, u.deadline = abandoned, 0
		s.out = append(s.out, Report{Kind: Trouble, Unit: n, Epoch: u.grant.Epoch, Text: fmt.Sprintf(
			"a handler still runs %s after its context was cancelled; the unit goes on without it elsewhere", s.cfg.CancelGrace)})
	}
}

// handoff gives the unit and its final checkpoint away in one write. An empty target leaves it without
// an owner: no member can take it. Given to ourselves it begins a new epoch, which excludes a handler
// that was left behind.
func (s *State) handoff(n int, target, reason string) {
	u, v := &s.units[n], &s.view.Units[n]
	h := protocol.Handoff{Grant: u.grant, After: v.CheckpointVersion}
	owner := protocol.Owner{Epoch: s.nextEpoch(n), After: u.grant.Epoch, Since: s.wall, Reason: reason}
	if target != "" {
		i, _ := s.taker(target)
		m := &s.view.Members[i]
		owner.Member, owner.Incarnation = m.ID, m.Incarnation
		if u.leftBehind {
			owner.Reason = fmt.Sprintf("a handler of epoch %d on %s never came back", u.grant.Epoch, s.cfg.Member)
		}
		h.Target = s.view.MemberVersions[i]
	}
	if u.dirty {
		h.Last = u.checkpoint
	}
	h.Owner = owner
	u.write = wHandoff
	s.batch = append(s.batch, write{
		kind: wHandoff, unit: n, epoch: u.grant.Epoch, owner: owner, checkpoint: h.Last, txn: s.cfg.Group.HandoffTxn(h),
	})
}

// evict reassigns a unit whose handler hangs here, and reports whether another member can take it. The handler may
// hang there too, and the unit come back while it still hangs here. So it is given to the next one after a growing
// pause, or the two would change the registry without end.
func (s *State) evict(n int) bool {
	p := &s.plan
	if s.leaving || p.targets[n] != s.cfg.Member {
		return false
	}
	load := func(id string) (c int) {
		for _, t := range p.targets {
			if t == id {
				c++
			}
		}
		return c
	}
	var others []string
	for i := range s.view.Members {
		id := s.view.Members[i].ID
		if _, ok := s.taker(id); ok && id != s.cfg.Member {
			others = append(others, id)
		}
	}
	u := &s.units[n]
	if len(others) == 0 || s.now < u.evictAt {
		return false
	}
	slices.SortStableFunc(others, func(a, b string) int { return cmp.Compare(load(a), load(b)) })
	if !p.current || p.writing || p.entry.open != 0 {
		return true // soon
	}
	targets := slices.Clone(p.targets)
	targets[n] = others[u.evictions%len(others)]
	u.evictAt = s.now + backoff(u.evictions, retryUnit)
	u.evictions++
	s.storePlan(targets, fmt.Sprintf("a handler of unit %d hangs on %s", n, s.cfg.Member))
	return true
}
