package sim

import (
	"slices"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// whole fails the history when the store has a part of what belongs together.
func (s *store) whole(by *node) {
	if _, ok := s.entries[s.meta]; !ok && len(s.entries) > 0 {
		keys := make([]string, 0, len(s.entries))
		for key := range s.entries {
			keys = append(keys, key)
		}
		s.w.fail("half a group: after a write of %s there are %d entries without its document, %s among them", name(by), len(keys), slices.Min(keys))
	}
	for _, key := range s.members {
		m := doc[protocol.Member](s, key)
		if _, ok := s.entries[s.w.group.StaticKey(m.ID)]; m.Static && !ok {
			s.w.fail("after a write of %s the static member %s is there and would not be waited for", name(by), m.ID)
		}
	}
}

// replace notes when a version of an owner entry was replaced.
func (s *store) replace(version registry.Version) {
	if version != "" {
		s.replaced[version] = s.w.now
	}
}

// begins fails the history when a worker starts although the member should know better.
func (n *node) begins(e *core.StartUnit) {
	w := n.w
	// Not where a store goes back: a grant is over when another replaces it, valid again when that is lost,
	// and over without a write when the store forgets it. A member that reads in between can't know which
	// of them it has read. It ends at the fence of its first write.
	if at, over := w.store.replaced[e.Grant.Version]; over && at < n.entered && !w.plan.has[Rollback] {
		w.fail("%s starts unit %d under a grant that was over before it joined", n, e.Grant.Unit)
	}
	if n.paused[e.Grant.Unit] > 1 {
		w.fail("%s starts unit %d, of which it has read that it is paused", n, e.Grant.Unit)
	}
}

// read counts the readings in a row that show a unit as paused, or another life of the group.
func (n *node) read(st *protocol.State) {
	if n.others++; !n.joined || st == nil || st.Meta == nil || st.Meta.Life == n.life {
		n.others = 0
	}
	for u := range n.paused {
		n.paused[u]++
		if st == nil || !st.Control.Paused && !slices.Contains(st.Control.PausedUnits, u) {
			n.paused[u] = 0
		}
	}
}

// lost fails the history when handlers of a lost unit or session are not cancelled at once.
func (n *node) lost(e *core.Report) {
	for u, k := range n.workers {
		if k == nil || k.cancelled || k.ended || k.draining && k.running == 0 {
			continue
		}
		if e.Kind == core.Paused || e.Kind == core.Fenced && e.Unit == u && e.To != n.name {
			n.w.fail("%s works on unit %d though %s", n, u, e.Text)
		}
	}
}

// overdue fails the history when a session ends by its TTL and its member still works. A process can't
// see that its host was suspended before it runs again: a member that wakes has a commit interval to
// notice. Until then its handlers may run beside those of the next owner, whose fence holds. wake looks
// at it then.
func (s *store) overdue(ss *session) {
	n := ss.node
	if !n.up() || n.frozen || n.session != ss.id || n.waking {
		return
	}
	for u, k := range n.workers {
		if k != nil && k.running > 0 && !k.cancelled {
			s.w.fail("%s still works on unit %d when its session expires", n, u)
		}
	}
}
