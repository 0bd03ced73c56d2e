package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// A member works as long as its session certainly lives, which it knows by itself: the store promises the
// lease from the moment at which a renewal was sent, and a margin before its end everything is stopped,
// whether the store answers or not. The grants stay, as the owner entries may outlive the session: a member
// that is back goes on with them if no other took them.
//
// A lost session is closed when the cancelled workers are back, or were given up (letGo): while the store
// keeps it, no other member begins on their units.
//
// After a lost session old grants may be resumed only on a reading that was asked for after the new member
// entry was confirmed.
//
// To leave is to drain: nothing new is taken, each unit is handed over when its worker has ended, and the
// member goes when none is left, or when its time is up. A static member keeps its units for its next start.

// leaseEnd is when everything must have been stopped: a margin before the store may let others in.
func (s *State) leaseEnd() time.Duration {
	margin := min(max(s.cfg.SessionTTL/10, 20*time.Millisecond), 500*time.Millisecond)
	return s.lease - margin
}

// checkLease stops everything when the last good renewal was sent too long ago. It asks no store: a
// member that can't reach it still has its clock.
func (s *State) checkLease() {
	if s.session != "" && s.now >= s.leaseEnd() {
		s.loseSession("the session could not be renewed in time")
	}
}

// open asks for a session when there is none.
func (s *State) open() {
	if s.exited || s.session != "" || s.opening != 0 || (s.leaving && s.kept() == 0) || s.blocked() {
		return
	}
	s.nextID++
	s.opening = s.nextID
	s.out = append(s.out, OpenSession{ID: s.nextID, TTL: s.cfg.SessionTTL})
}

func (s *State) sessionOpened(ev SessionOpened) {
	if ev.ID != s.opening {
		return
	}
	s.opening = 0
	if ev.Err != nil {
		s.storeFailed("opening a session", ev.Err)
		return
	}
	s.session, s.lease, s.touched, s.doubt = ev.Session, ev.Lease, true, false
}

// loseSession stops all workers. The grants stay: the store decides, when it is back, whether the
// owner entries still name us.
func (s *State) loseSession(why string) {
	cause := fmt.Errorf("member %q: %s, others may own its units now: %w", s.cfg.Member, why, registry.ErrFenced)
	for n := range s.units {
		s.stopWorker(n, cause)
	}
	s.out = append(s.out, Report{Kind: Paused, Unit: -1, Text: why + "; everything is stopped until there is a new one"},
		LoseSession{Session: s.session})
	if s.closing != "" {
		s.out = append(s.out, CloseSession{Session: s.closing})
	}
	s.closing = s.session
	s.session, s.lease = "", 0
	s.joined, s.joining, s.announced = false, false, false
	s.viewStep, s.wantLoad, s.touched = 0, true, true
	s.plan.known, s.plan.seen = false, false
}

// letGo closes a lost session once the cancelled workers are back: as long as the store keeps it
// alive, no other member starts their units.
func (s *State) letGo() {
	if s.closing == "" || s.busy() > 0 {
		return
	}
	s.out = append(s.out, CloseSession{Session: s.closing})
	s.closing = ""
}

// busy counts the workers that are expected to end or run on.
func (s *State) busy() (n int) {
	for i := range s.units {
		if w := s.units[i].worker; w != none && w != abandoned {
			n++
		}
	}
	return n
}

// kept counts the units that a leaving member still has to hand over, or to store the progress of.
func (s *State) kept() (n int) {
	for i := range s.units {
		if u := &s.units[i]; u.granted && (!s.cfg.Static || u.dirty) {
			n++
		}
	}
	return n
}

// document is this member's entry.
func (s *State) document() protocol.Member {
	return protocol.Member{
		ID: s.cfg.Member, Incarnation: s.cfg.Incarnation, Weight: s.cfg.Weight, Zone: s.cfg.Zone,
		Static: s.cfg.Static, Host: s.cfg.Host, PID: s.cfg.PID, Joined: s.wall,
		Draining: s.leaving && !s.cfg.Static,
	}
}

// find looks a member up in the view.
func (s *State) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.view.Members, id, func(m protocol.Member, id string) int {
		return strings.Compare(m.ID, id)
	})
}

// placeOf is the version of a member's entry; "": it has none.
func (s *State) placeOf(id string) registry.Version {
	_, version, _ := s.view.Member(id)
	return version
}

// join puts the member entry into an existing group: the group's document goes with it when there is
// none yet, and a group that was deleted meanwhile is not half made anew.
func (s *State) join() {
	if s.exited || (s.leaving && s.kept() == 0) || s.joined || s.joining || s.session == "" || s.viewStep == 0 || s.self.open != 0 || s.blocked() {
		return
	}
	j := protocol.Join{Member: s.document(), Session: s.session, Meta: s.view.MetaVersion, Restart: s.cfg.RestartWindow}
	j.Seen = s.placeOf(s.cfg.Member)
	s.joining = true
	s.tried++
	meta := s.view.Meta
	if meta == nil {
		j.Found = &protocol.Meta{
			Format: 1, Life: fmt.Sprintf("%s.%d", s.cfg.Incarnation, s.tried), // no other try has it
			Topic: s.cfg.Topic, Units: len(s.units), Layout: s.cfg.LayoutName, Initial: s.cfg.Initial, First: s.cfg.First, Assignor: s.cfg.Assignor.Name(), Created: s.wall,
		}
		j.Also = s.defined() // otherwise a deleted topic would get a group again, which the next topic of its name would take for its own
		meta = j.Found
	}
	s.batch = append(s.batch, write{
		kind: wJoin, member: j.Member, meta: j.Found, session: s.session, life: meta.Life, txn: s.cfg.Group.JoinTxn(j),
	})
}

// announce marks the member entry as leaving: it is given nothing more.
func (s *State) announce() {
	if !s.leaving || s.cfg.Static || s.announced || s.joining {
		return
	}
	m := s.document()
	s.joining = true
	s.batch = append(s.batch, write{kind: wJoin, member: m, session: s.session, txn: s.cfg.Group.AnnounceTxn(m, s.session, s.member)})
}

// memberWritten takes the outcome of join or announce.
func (s *State) memberWritten(w *write, o outcome, versions []registry.Version) {
	if w.session != s.session {
		s.wantLoad = true // of a session that is gone, as is its entry
		return
	}
	s.joining, s.touched = false, true
	s.doubt = s.doubt || o == unknown
	if o != done {
		s.self.doubt(s.step)
	}
	if o == refused {
		s.loseSession("the store says that the session has ended")
		return
	}
	if o != done {
		s.wantLoad = true
		s.redefined(o, w.meta != nil)
		return
	}
	s.member, s.announced = versions[0], w.member.Draining
	i, ok := s.find(w.member.ID)
	var has registry.Version
	if ok {
		has = s.view.MemberVersions[i]
	}
	if !s.stored(&s.self, w, has, w.txn.Checks[0].Version, s.member) && ok {
		s.self.doubt(s.step) // another writer has replaced it meanwhile
		s.wantLoad = true
		return
	}
	if w.meta != nil && s.view.Meta == nil {
		s.view.Meta, s.view.MetaVersion = w.meta, versions[1]
		s.fit(w.meta.Units)
	}
	if !ok {
		s.view.Members = slices.Insert(s.view.Members, i, w.member)
		s.view.MemberVersions = slices.Insert(s.view.MemberVersions, i, "")
	}
	s.view.Members[i], s.view.MemberVersions[i] = w.member, s.member
	s.plan.seen = false
	if !s.joined {
		if s.tried > 1 {
			// Until a moment ago others could take our units for a dead member's. From now on they
			// can't, see claim: what a reading says that begins now is true.
			s.viewStep, s.wantLoad = 0, true
		}
		if s.everJoined {
			// If the store was away, the others lost their sessions too, and are about to be back.
			// The first to come must not take everything.
			s.calmUntil = s.now + calm
		}
		s.joined, s.everJoined, s.life = true, true, w.life
		if s.view.Meta == nil || s.view.Meta.Life != s.life {
			s.viewStep, s.wantLoad = 0, true // that life is over: the next reading says so
		}
		s.out = append(s.out, Report{Kind: Joined, Unit: -1, To: w.member.ID, Text: "incarnation " + w.member.Incarnation})
	}
}

// stop begins the leave.
func (s *State) stop() {
	if s.leaving {
		return
	}
	s.leaving, s.touched, s.plan.seen = true, true, false
	s.joinUntil = s.now + s.cfg.CancelGrace
	s.leaveUntil = s.now + s.cfg.DrainTimeout + 2*s.cfg.CancelGrace + max(s.cfg.SessionTTL, time.Second)
}

// leave ends the leave when nothing is left to give away, or in bounded time.
func (s *State) leave() {
	if !s.leaving || s.exited {
		return
	}
	busy, kept := s.busy(), s.kept()
	name := s.cfg.Group.Name()
	switch {
	case !s.joined && busy == 0 && kept == 0:
		if !s.joining || s.now >= s.joinUntil { // the answer to the join says what to take away: others share the session
			s.exit(nil)
		}
	case s.session == "" && s.storeFailures > 0 && busy == 0:
		s.exit(fmt.Errorf("member %q left group %q without a session, for the store does not answer, so that %d units could not be handed over; others claim them: %w",
			s.cfg.Member, name, kept, registry.ErrUnavailable))
	case s.now >= s.leaveUntil:
		s.exit(fmt.Errorf("member %q left group %q in a hurry: %d workers were still busy and %d units not handed over when its time to drain was up; others claim them: %w",
			s.cfg.Member, name, busy, kept, registry.ErrUnavailable))
	case !s.joined:
	case busy == 0 && kept == 0 && len(s.pending) == 0 && len(s.batch) == 0:
		s.exit(nil)
	}
}
