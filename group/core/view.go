package core

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// The view is the group as the store showed it last, plus our own later writes. A reading can be older than a
// write that was confirmed while it was under way: newer knowledge stays (merge, entry.go). It can also be of
// a store that went back, after a failover to a replica that lagged: then it shows a version that none of
// these writes has replaced, and is believed.

// loaded takes a reading of the group. It may be older than writes of ours that were confirmed since
// it was asked for; those are kept, see entry.
func (s *State) loaded(ev Loaded) {
	if ev.ID != s.loading {
		return
	}
	s.loading = 0
	if ev.Err != nil {
		s.storeFailed("reading the group", ev.Err)
		return
	}
	s.storeWorks(false)
	s.touched = true
	if s.self.since(s.loadStep) { // it is too old about us
		s.wantLoad = true
		return
	}
	if ev.Layout != nil {
		s.wantLayout = false
		s.grown(ev.Layout)
	} else if s.beyond(ev.State.Meta) {
		s.wantLayout, s.wantLoad = true, true
		return
	}
	s.self.open = 0
	if err := s.checkMeta(ev.State.Meta); err != nil {
		s.exit(err)
		return
	}
	s.merge(ev.State)
	s.viewStep, s.plan.seen = s.loadStep, false
	s.sweepAt = 0
	if s.cfg.Sweep > 0 {
		s.sweepAt = s.now + s.cfg.Sweep
	}
	s.checkSelf()
	s.noteAbsent()
}

// maxAhead bounds by how many units a group may be ahead of a member's knowledge: what a topic gets by
// sixteen growths, of which each is heard of in seconds. A larger lead gets no room.
const maxAhead = 1 << 16

func (s *State) checkMeta(m *protocol.Meta) error {
	name := s.cfg.Group.Name()
	switch {
	case m == nil && s.everJoined:
		return fmt.Errorf("group %q was deleted while member %q was in it, or the store went back to before it was made: %w", name, s.cfg.Member, registry.ErrNotFound)
	case m == nil:
		return nil
	case s.everJoined && m.Life != s.life:
		return fmt.Errorf("group %q was deleted while member %q was in it, and there is another one of its name, or the store went back to one: %w",
			name, s.cfg.Member, registry.ErrNotFound)
	case m.Topic != s.cfg.Topic:
		return fmt.Errorf("group %q consumes topic %q, this member was started for %q: use another group name or delete the group: %w",
			name, m.Topic, s.cfg.Topic, registry.ErrExists)
	case m.Layout != s.cfg.LayoutName:
		return fmt.Errorf("group %q has the layout %q, this member was started with %q: its units would be others: %w",
			name, m.Layout, s.cfg.LayoutName, registry.ErrExists)
	case len(s.layout) == 0 && m.Units != s.cfg.Units:
		return fmt.Errorf("group %q has %d units, this member was started for %d: %w", name, m.Units, s.cfg.Units, registry.ErrExists)
	case len(s.layout) != 0 && m.Units > len(s.layout)+maxAhead:
		return fmt.Errorf("group %q has %d units, and what it consumes has %d: a member that has not heard of the latest is behind by at most %d, so another program wrote that; put registry key %q back as it was, or delete the group: %w",
			name, m.Units, len(s.layout), maxAhead, s.cfg.Group.MetaKey(), fault.Corrupt)
	case s.beyond(m):
		return fmt.Errorf("group %q is finished with the units below %d, and those from %d on are of the newest storage topic, which takes records: another program wrote that, and no member would work on them; seek the group to where it is to go on (ringfence group seek), or put registry key %q back as it was: %w",
			name, m.First, s.layout.newest(), s.cfg.Group.MetaKey(), fault.Corrupt)
	case m.Assignor != s.cfg.Assignor.Name():
		return fmt.Errorf("group %q uses assignor %q, this member was started with %q: all members need the same: %w",
			name, m.Assignor, s.cfg.Assignor.Name(), registry.ErrExists)
	}
	return nil
}

// beyond reports whether a group is finished with units of the newest storage topic. They would never be
// worked on again, so it is damage, unless there is a newer storage topic that we have not heard of: a
// retirement there finishes the group with what came before, and the group has none of the new units yet. A
// layout that is read after the group decides, see Load.
func (s *State) beyond(m *protocol.Meta) bool {
	return m != nil && !s.cfg.Closed && len(s.layout) != 0 && m.Units <= len(s.layout) && m.First > s.layout.newest()
}

// merge makes st the view, except for what we know better.
func (s *State) merge(st *protocol.State) {
	old := s.view
	s.view, s.viewAt = st, s.now
	keep := func(e *entry, shown registry.Version) bool {
		keep, again := e.read(s.loadStep, shown)
		s.wantLoad = s.wantLoad || again
		return keep && old != nil && old.Meta != nil
	}
	if keep(&s.plan.entry, st.AssignmentVersion) {
		st.Assignment, st.AssignmentVersion, st.AssignmentDamage = old.Assignment, old.AssignmentVersion, old.AssignmentDamage
	}
	if keep(&s.meta, st.MetaVersion) {
		st.Meta, st.MetaVersion = old.Meta, old.MetaVersion
	}
	if st.Meta == nil {
		return
	}
	s.fit(st.Meta.Units)
	if old != nil && old.Meta != nil {
		s.pad(old)
	}
	for n := range s.units {
		u, v := &s.units[n], &st.Units[n]
		if keep(&u.owner, v.OwnerVersion) {
			v.Owner, v.OwnerVersion, v.OwnerDamage = old.Units[n].Owner, old.Units[n].OwnerVersion, old.Units[n].OwnerDamage
		}
		// What we stored under an owner entry that was replaced since is known to the new owner, or lost.
		if keep(&u.point, v.CheckpointVersion) && old.Units[n].OwnerVersion == v.OwnerVersion {
			v.Checkpoint, v.CheckpointVersion, v.CheckpointDamage = old.Units[n].Checkpoint, old.Units[n].CheckpointVersion, old.Units[n].CheckpointDamage
		}
		if old != nil && old.Meta != nil && old.Units[n].OwnerVersion != v.OwnerVersion {
			u.from = old.Units[n].Owner.Member
		}
	}
}

// checkSelf looks for our own entry: if it is gone the session ended, with another incarnation the
// member was started again.
func (s *State) checkSelf() {
	i, ok := s.find(s.cfg.Member)
	switch {
	case ok && s.view.Members[i].Unreadable && s.everJoined:
		s.exit(fmt.Errorf("what is stored of member %q of group %q can't be read and belongs to another session: another start has replaced this one: member ids must be unique: %w",
			s.cfg.Member, s.cfg.Group.Name(), registry.ErrFenced))
	case ok && s.view.Members[i].Incarnation != s.cfg.Incarnation && s.everJoined:
		m := &s.view.Members[i]
		s.exit(fmt.Errorf("member %q of group %q was started again as incarnation %s (host %q, process %d) and replaces this one, %s: member ids must be unique: %w",
			s.cfg.Member, s.cfg.Group.Name(), m.Incarnation, m.Host, m.PID, s.cfg.Incarnation, registry.ErrFenced))
	case !s.joined || s.joining:
	case !ok:
		s.loseSession("the store ended the session")
	default:
		s.member = s.view.MemberVersions[i]
	}
}

// unknown reports whether a live member's entry can't be read.
func (s *State) unknown(id string) bool {
	m, _, _ := s.view.Member(id)
	return m.Unreadable
}

// taker returns the index of a member that can be given units now.
func (s *State) taker(id string) (int, bool) {
	if id == "" {
		return 0, false
	}
	i, ok := s.find(id)
	return i, ok && !s.view.Members[i].Draining
}

func (s *State) paused(n int) bool {
	return s.view.Control.Paused || slices.Contains(s.view.Control.PausedUnits, n)
}
