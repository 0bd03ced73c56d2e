package sim

import (
	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// depart is the end of a member: its session ends too, unless others in its process need it. Then the member
// removes its entry. If that may not be all, the session ends for every member.
func (n *node) depart(e *core.Exit) {
	id := n.session
	if !n.w.plan.has[Shared] || id == "" || e.Doubt {
		n.closeSession(id)
		return
	}
	n.shares(id)
	if e.Withdraw == nil {
		return
	}
	if n.dropped(Loss) || n.dropped(LostReply) {
		n.unshare(id)
		return
	}
	n.w.later(n.latency(), func() {
		if n.w.store.down || n.w.store.apply(n, e.Withdraw).Err != nil && n.has(id) {
			n.unshare(id)
		}
	})
}

// shares keeps the session as long as the process lives, as its other members do, and looks now and then
// whether a store that went back has the entry again.
func (n *node) shares(id string) {
	n.sharing = id
	n.w.later(n.w.plan.ttl/3, func() {
		if n.dead || n.sharing != id {
			return
		}
		if n.w.store.down || n.w.store.renew(id) {
			if n.w.plan.has[Rollback] {
				n.sweep(id)
			}
			n.shares(id)
		}
	})
}

// has reports whether the store has the entry of this start of the member under the session.
func (n *node) has(id string) bool {
	s, key := n.w.store, n.w.group.MemberKey(n.name)
	have, ok := s.entries[key]
	return ok && have.session == id && doc[protocol.Member](s, key).Incarnation == n.incarnation
}

// unshare ends the session for all.
func (n *node) unshare(id string) {
	n.sharing = ""
	n.closeSession(id)
}

// sweep does what protocol.Sessions does about entries of members that left.
func (n *node) sweep(id string) {
	s, key := n.w.store, n.w.group.MemberKey(n.name)
	if s.down || !n.has(id) {
		return
	}
	have := s.entries[key]
	s.apply(n, &registry.Txn{Checks: []registry.Check{{Key: key, Version: have.version}}, Deletes: []string{key}})
}
