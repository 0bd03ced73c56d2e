package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// All members plan and one writes. Each computes the same plan from the same view (replan): the stored
// assignment, if it was made for the present members, else what the assignor makes of it for them. Then the
// members take turns in the order of their names to store it (planAt), under a check of the version that it
// follows, and the others find it there. An absent static member counts as a member until its window is over,
// by each observer's own clock, so that its units stay its own.

// plan names the owner that each unit should have. It follows from the stored assignment and the members, so
// members that see the same compute the same; storing it decides it for all.
type plan struct {
	known   bool             // it was computed
	seen    bool             // nothing that it depends on has changed since
	members []string         // for whom: "id@incarnation", sorted
	base    registry.Version // from which stored assignment
	targets []string         // by unit
	first   int              // of them, the first that is worked on
	current bool             // it is the stored one, and the members are those it was made for
	reason  string
	since   time.Duration // when it was first seen not to be current
	writing bool
	entry   entry
}

// absence is a static member within its restart window, as far as this member saw it.
type absence struct {
	id    string
	until time.Duration
	sent  bool // the end of its window is being written
}

// noteAbsent starts a window for each absent static member, on our own clock.
func (s *State) noteAbsent() {
	var now []absence
	for _, st := range s.view.Static {
		if _, ok := s.find(st.ID); ok {
			continue
		}
		a := absence{id: st.ID, until: s.now + time.Duration(st.RestartMillis)*time.Millisecond}
		for _, b := range s.absent {
			if b.id == st.ID {
				a.until = b.until
			}
		}
		now = append(now, a)
	}
	s.absent = now
}

// expireAbsent ends windows that are over: the static entry goes, and with it the claim on units.
func (s *State) expireAbsent() {
	for i := range s.absent {
		a := &s.absent[i]
		if a.sent || s.now < a.until {
			continue
		}
		a.sent = true
		s.batch = append(s.batch, write{kind: wExpire, txn: s.cfg.Group.ForgetTxn(a.id, s.view.MetaVersion)})
	}
}

func (s *State) absentAt() (at time.Duration) {
	for i := range s.absent {
		if a := &s.absent[i]; !a.sent && (at == 0 || a.until < at) {
			at = a.until
		}
	}
	return at
}

// eligible returns the members that can get units, and the sorted names of all that have a part in
// the plan: theirs, and those of awaited static members.
func (s *State) eligible() (members []assign.Member, names []string) {
	for i := range s.view.Members {
		m := &s.view.Members[i]
		if m.Draining || (m.ID == s.cfg.Member && s.leaving && !s.cfg.Static) {
			continue
		}
		members = append(members, assign.Member{ID: m.ID, Weight: m.Weight, Zone: m.Zone})
		names = append(names, m.ID+"@"+m.Incarnation)
	}
	doc := s.view.Assignment
	for i := 0; doc != nil && i < len(s.absent); i++ {
		for _, name := range doc.Members {
			if id, _, _ := strings.Cut(name, "@"); id == s.absent[i].id {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return members, names
}

// replan brings the plan up to date with the view.
func (s *State) replan() {
	if s.plan.seen {
		return
	}
	s.plan.seen = true
	members, names := s.eligible()
	p, doc := &s.plan, s.view.Assignment
	first := s.view.Meta.First
	if p.known && p.base == s.view.AssignmentVersion && slices.Equal(p.members, names) && len(p.targets) == len(s.units) && p.first == first {
		return
	}
	since := s.now
	if p.known && !p.current {
		since = p.since
	}
	p.known, p.members, p.base, p.since, p.first = true, names, s.view.AssignmentVersion, since, first
	switch {
	case doc != nil && len(doc.Targets) == len(s.units) && doc.First == first && slices.Equal(doc.Members, names):
		p.targets, p.current, p.reason = doc.Targets, true, doc.Reason
	case len(names) == 0: // all are leaving: no member can take a unit
		p.targets, p.current, p.reason = make([]string, len(s.units)), true, "all members leave"
	default:
		p.targets = s.assign(members)
		p.current, p.reason = false, s.whyPlan(names)
	}
}

// assign asks the assignor about all units except those that wait for a static member or are passed.
func (s *State) assign(members []assign.Member) []string {
	targets := s.before(members)
	req := assign.Request{Members: members}
	var open []int
	for n, id := range targets {
		if n < s.plan.first {
			continue
		}
		if slices.ContainsFunc(s.absent, func(a absence) bool { return id != "" && a.id == id }) {
			continue
		}
		open = append(open, n)
		req.Current = append(req.Current, id)
		zone := "" // units that came later have none
		if n < len(s.cfg.UnitZones) {
			zone = s.cfg.UnitZones[n]
		}
		req.Zones = append(req.Zones, zone)
	}
	if len(open) > 0 && len(members) > 0 {
		for i, id := range s.cfg.Assignor.Assign(req) {
			targets[open[i]] = id
		}
	}
	return targets
}

// before is what a new plan starts from: the stored assignment, so that all start from the same;
// for the first one, the owners. Members that are gone, and not awaited, are left out.
func (s *State) before(members []assign.Member) []string {
	current := make([]string, len(s.units))
	doc := s.view.Assignment
	for n := s.plan.first; n < len(current); n++ {
		id := s.view.Units[n].Owner.Member
		if doc != nil && n < len(doc.Targets) {
			id = doc.Targets[n]
		}
		awaited := doc != nil && slices.ContainsFunc(s.absent, func(a absence) bool { return a.id == id })
		if _, live := slices.BinarySearchFunc(members, id, func(m assign.Member, id string) int { return strings.Compare(m.ID, id) }); live || awaited {
			current[n] = id
		}
	}
	return current
}

func (s *State) whyPlan(names []string) string {
	var old, why []string
	if doc := s.view.Assignment; doc != nil {
		old = doc.Members
		switch {
		case len(doc.Targets) != len(s.units):
			why = append(why, fmt.Sprintf("units %d to %d came", len(doc.Targets), len(s.units)-1))
		case doc.First < s.plan.first:
			why = append(why, fmt.Sprintf("units %d to %d are finished", doc.First, s.plan.first-1))
		case doc.First > s.plan.first:
			why = append(why, fmt.Sprintf("unit %d was sent back", s.plan.first))
		}
	}
	note := func(from, to []string, verb string) {
		for _, name := range from {
			if slices.Contains(to, name) {
				continue
			}
			id, _, _ := strings.Cut(name, "@")
			same := func(other string) bool { return strings.HasPrefix(other, id+"@") }
			switch {
			case !slices.ContainsFunc(to, same):
				why = append(why, id+" "+verb)
			case verb == "joined":
				why = append(why, id+" restarted")
			}
		}
	}
	note(names, old, "joined")
	note(old, names, "left")
	if len(why) > 3 {
		why = append(why[:3], "and others")
	}
	switch {
	case s.view.AssignmentDamage != nil:
		return fmt.Sprintf("registry key %q held no assignment", s.cfg.Group.AssignmentKey())
	case len(why) == 0:
		return "first assignment"
	}
	return strings.Join(why, ", ")
}

// planAt is when it is our turn to write a plan that is not stored yet: members take turns in the
// order of their names, except the leaving ones.
func (s *State) planAt() time.Duration {
	p := &s.plan
	if !p.known || p.current || p.writing || !s.joined {
		return 0
	}
	if s.leaving {
		return max(p.since, 1)
	}
	return max(s.turn(p.since), s.calmUntil)
}

// turn is when it is this member's turn for work that all members have seen to be due since then.
func (s *State) turn(since time.Duration) time.Duration {
	rank := 0
	for i := range s.view.Members {
		m := &s.view.Members[i]
		if m.ID == s.cfg.Member {
			break
		}
		if !m.Draining {
			rank++
		}
	}
	return max(since+time.Duration(min(rank, 20))*planDelay, 1)
}

func (s *State) writePlan() {
	if at := s.planAt(); at == 0 || s.now < at || s.plan.entry.open != 0 {
		return
	}
	s.storePlan(s.plan.targets, s.plan.reason)
}

func (s *State) storePlan(targets []string, reason string) {
	doc := protocol.Assignment{
		Version: 1, By: s.cfg.Member, Reason: reason, Members: s.plan.members,
		Targets: targets, First: s.plan.first, Assignor: s.cfg.Assignor.Name(),
	}
	if s.view.Assignment != nil {
		doc.Version = s.view.Assignment.Version + 1
	}
	txn := s.cfg.Group.PlanTxn(doc, s.view.AssignmentVersion, s.view.MetaVersion)
	if size := len(txn.Puts[0].Value); size > registry.MaxValueBytes {
		s.exit(fmt.Errorf("group %q: the assignment of %d units to %d members takes %d bytes; at most %d can be stored: use shorter member IDs or fewer units: %w",
			s.cfg.Group.Name(), len(targets), len(doc.Members), size, registry.MaxValueBytes, registry.ErrInvalid))
		return
	}
	s.plan.writing = true
	s.batch = append(s.batch, write{kind: wPlan, plan: &doc, txn: txn})
}

func (s *State) planWritten(w *write, o outcome, versions []registry.Version) {
	s.plan.writing, s.touched = false, true
	if o == unavailable {
		return
	}
	if o != done {
		s.plan.entry.doubt(s.step)
		s.wantLoad = true
		return
	}
	if s.stored(&s.plan.entry, w, s.view.AssignmentVersion, w.txn.Checks[0].Version, versions[0]) {
		s.view.Assignment, s.view.AssignmentVersion, s.view.AssignmentDamage = w.plan, versions[0], nil
		s.plan.known, s.plan.seen = false, false
	}
	s.out = append(s.out, Report{Kind: Planned, Unit: -1, Text: w.plan.Reason})
}
