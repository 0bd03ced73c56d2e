package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
)

func (s *store) open(n *node) *session {
	s.count++
	ss := &session{id: fmt.Sprintf("s%d.%d", s.nonce, s.count), node: n, until: s.w.now + s.w.plan.ttl}
	s.sessions[ss.id] = ss
	s.expire(ss)
	return ss
}

// renew reports whether the session still exists.
func (s *store) renew(id string) bool {
	ss := s.sessions[id]
	if ss == nil {
		return false
	}
	ss.until = s.w.now + s.w.plan.ttl
	return true
}

// expire looks again when the session may have run out. A store that is down lets nothing expire.
func (s *store) expire(ss *session) {
	s.w.later(ss.until-s.w.now, func() {
		switch {
		case s.sessions[ss.id] != ss:
		case s.down:
			ss.until = s.w.now + s.w.plan.ttl // the next leader renews all
			s.expire(ss)
		case s.w.now < ss.until:
			s.expire(ss)
		default:
			s.overdue(ss)
			s.end(ss.id, "expired")
		}
	})
}

func (s *store) end(id, why string) {
	if s.sessions[id] == nil {
		return
	}
	s.w.tracef("session %s of %s ended: %s", id, name(s.sessions[id].node), why)
	delete(s.sessions, id)
	for _, key := range slices.Clone(s.members) {
		if s.entries[key].session == id {
			s.remove(key)
		}
	}
	s.w.hint()
}

// copied is a state of the store that a replica has.
type copied struct {
	entries         map[string]entryDoc
	members, static []string
	writes          int // that the replica misses
	upTo            int
}

// lag keeps a replica that is some writes behind, if the history has one.
func (s *store) lag() {
	if !s.w.plan.has[Rollback] || s.w.heals {
		return
	}
	if s.before == nil || s.before.writes >= s.before.upTo {
		s.before = &copied{
			entries: maps.Clone(s.entries), members: slices.Clone(s.members), static: slices.Clone(s.static), upTo: 1 + s.w.rng.IntN(6),
		}
	}
	s.before.writes++
}

// rollback makes the replica the leader: acknowledged writes are gone. Its versions have another
// nonce, so that none is ever given out twice. Sessions are kept, the members' connections are not.
func (s *store) rollback() {
	if s.before == nil {
		return
	}
	if _, ok := s.before.entries[s.meta]; !ok && !s.w.plan.has[Deletion] {
		return // a store that has forgotten the whole group is a deleted group: members leave
	}
	s.w.tracef("the store fails over to a replica that misses %d writes", s.before.writes)
	for n := range s.owners {
		is, will := s.entries[s.owners[n]].version, s.before.entries[s.owners[n]].version
		if is != will {
			s.replace(is)
			delete(s.replaced, will)
		}
	}
	s.entries, s.members, s.static = s.before.entries, s.before.members, s.before.static
	s.before = nil
	s.nonce++
	for _, key := range slices.Clone(s.members) {
		if s.sessions[s.entries[key].session] == nil {
			s.remove(key) // its session ended in the meantime
		}
	}
	for n := range s.owners {
		o, _ := s.owner(n)
		s.w.tell(history.Event{
			Kind: history.Rollback, Unit: n, Epoch: o.Epoch, Partition: n,
			Positions: s.orBegin(n),
		})
	}
	s.w.hint()
}

// orBegin are the positions of all inputs of a unit, also of those of which none was stored.
func (s *store) orBegin(n int) []protocol.Position {
	pos := s.w.units[n].begin()
	for _, at := range s.positions(n) {
		for i := range pos {
			if pos[i].Partition == at.Partition {
				pos[i] = at
			}
		}
	}
	return pos
}
