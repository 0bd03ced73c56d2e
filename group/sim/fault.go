package sim

import (
	"context"
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
)

// maxNodes bounds the processes that are up at the same time.
const maxNodes = 6

// schedule spreads what the seed chose over the time until the horizon. The other kinds happen on
// the way of each message, in each handler, or at each start.
func (w *world) schedule() {
	actions := map[Fault]func(){
		Crash: w.crash, Restart: w.restart, Twin: w.twin, Freeze: w.freeze, Outage: w.outage, Partition: w.cut, Deaf: w.deafen,
		Rollback: w.store.rollback, Membership: w.comeOrGo, Seeks: w.seek, Control: w.control, Eviction: w.evict, Static: w.restart,
		Growth: w.grow, Deletion: w.remove, Suspend: w.suspend,
	}
	for _, kind := range w.plan.kinds() {
		act := actions[kind]
		if act == nil {
			continue
		}
		for range 1 + w.rng.IntN(4) {
			w.later(w.upTo(w.plan.horizon), func() {
				if !w.heals {
					act()
				}
			})
		}
	}
}

// live returns the processes that are up.
func (w *world) live() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return !n.up() })
}

// anyone picks a process that is up; nil when there is none.
func (w *world) anyone() *node {
	live := w.live()
	if len(live) == 0 {
		return nil
	}
	return live[w.rng.IntN(len(live))]
}

func (w *world) crash() {
	if n := w.anyone(); n != nil {
		n.kill()
	}
}

func (n *node) kill() {
	w := n.w
	w.tracef("%s is killed", n)
	n.dead = true
	if id := n.session; id != "" && !w.chance(3) {
		w.later(w.brief(), func() { // as fast as the store can notice
			if !w.store.down {
				w.store.end(id, "its process died")
			}
		})
	}
}

func (w *world) restart() {
	n := w.anyone()
	if n == nil {
		return
	}
	if n.cfg.Static && w.chance(2) {
		n.stop()
	} else {
		n.kill()
	}
	w.later(w.upTo(2*w.plan.ttl), func() { w.newNode(n.name) })
}

// twin starts a second process with the id of one that runs.
func (w *world) twin() {
	if n := w.anyone(); n != nil && len(w.live()) < maxNodes {
		w.newNode(n.name)
	}
}

func (w *world) freeze() {
	if n := w.anyone(); n != nil && !n.frozen {
		w.tracef("%s is stopped", n)
		n.frozen = true
		w.later(w.upTo(2*w.plan.ttl), n.thaw)
	}
}

// suspend makes a host sleep, for minutes as far as the store can tell.
func (w *world) suspend() {
	if n := w.anyone(); n != nil && !n.frozen {
		w.tracef("the host of %s is suspended", n)
		n.frozen, n.asleep = true, w.now
		w.later(w.upTo(3*w.plan.ttl), n.thaw)
	}
}

// thaw lets a process go on: all that waited for it happens at once, in any order.
func (n *node) thaw() {
	if !n.frozen || n.dead {
		return
	}
	n.w.tracef("%s goes on", n)
	n.frozen = false
	if n.asleep != 0 {
		n.wake()
	}
	backlog := n.backlog
	n.backlog = nil
	if n.w.chance(2) {
		n.w.rng.Shuffle(len(backlog), func(i, j int) { backlog[i], backlog[j] = backlog[j], backlog[i] })
	}
	for _, f := range backlog {
		n.in(0, f)
	}
}

func (w *world) outage() {
	w.tracef("the store is down")
	w.store.down = true
	w.later(w.upTo(2*w.plan.ttl), w.restore)
}

func (w *world) restore() {
	if w.store.down {
		w.tracef("the store is back")
		w.store.down = false
		w.hint() // every watch reconnects
	}
}

func (w *world) cut() {
	if n := w.anyone(); n != nil {
		w.tracef("%s is cut off", n)
		n.cutOff = true
		w.later(w.upTo(2*w.plan.ttl), n.reconnect)
	}
}

func (w *world) deafen() {
	if n := w.anyone(); n != nil {
		w.tracef("the watch of %s is broken", n)
		n.deaf = true
		w.later(w.upTo(2*w.plan.ttl), n.reconnect)
	}
}

// reconnect ends being cut off and deaf. A watch that is connected again gives a hint.
func (n *node) reconnect() {
	if !n.deaf && !n.cutOff {
		return
	}
	n.w.tracef("%s is connected again", n)
	n.deaf, n.cutOff = false, false
	n.soon(func() { n.step(core.Changed{}) })
}

func (w *world) comeOrGo() {
	if n := w.anyone(); n != nil && (w.chance(2) || len(w.live()) >= maxNodes) {
		n.stop()
		return
	}
	w.newNode("")
}

func (n *node) stop() {
	if !n.leaving {
		n.w.tracef("%s is asked to leave", n)
		n.leaving = true
		n.in(0, func() { n.step(core.Stop{}) })
	}
}

func (w *world) evict() {
	if n := w.anyone(); n != nil && !w.store.down {
		w.store.end(n.session, "the store ended it")
	}
}

// seek moves a checkpoint as the command line does: with the owner's epoch, in one write.
func (w *world) seek() {
	w.seekIn(w.rng.IntN(max(1, doc[protocol.Meta](w.store, w.store.meta).Units)))
}

func (w *world) seekIn(u int) {
	o, _ := w.store.owner(u)
	if o.Epoch == 0 || w.store.down || doc[protocol.Meta](w.store, w.store.meta).Deleting {
		return
	}
	p := w.units[u].any()
	pos := []protocol.Position{{Storage: p.unit.storage, Partition: p.number, Next: w.rng.Int64N(int64(len(p.keys)) + 1)}}
	for o := range pos[0].Next {
		p.done[o] = true // a seek forward gives them up
	}
	w.move(u, o, pos, w.store.beside(u, pos[0]))
	for n := range w.units {
		if slices.Contains(w.before(n), u) {
			w.units[n].unheard++
			w.fenceBehind(n, w.store.deleted)
		}
	}
}

// move gives a unit a new epoch, and positions.
func (w *world) move(u int, o protocol.Owner, told, all []protocol.Position) {
	o.After, o.Epoch, o.Reason = o.Epoch, protocol.NextEpoch(o.Epoch, w.wall()), "seek"
	w.tell(history.Event{Kind: history.Seek, Unit: u, Epoch: o.Epoch, Storage: told[0].Storage, Partition: told[0].Partition, Positions: told})
	w.store.apply(nil, &registry.Txn{Puts: append(w.sought(u),
		registry.Put{Key: w.store.checkpoints[u], Value: registry.Encode(protocol.Checkpoint{Positions: all, Epoch: o.Epoch})},
		registry.Put{Key: w.store.owners[u], Value: registry.Encode(o)},
	)})
	w.store.before = nil // the replica has it: repeats by an undone seek are no fault
}

// fenceBehind is the end of a seek: it fences the owner of a unit that comes after the one that was sent back.
func (w *world) fenceBehind(u, life int) {
	w.later(w.brief(), func() {
		if w.store.down {
			w.fenceBehind(u, life)
			return
		}
		w.units[u].unheard--
		o, _ := w.store.owner(u)
		if meta := doc[protocol.Meta](w.store, w.store.meta); o.Epoch == 0 || meta.Deleting || life != w.store.deleted {
			return
		}
		at := w.units[u].begin()
		for i := range at {
			for _, p := range w.store.positions(u) {
				if p.Partition == at[i].Partition {
					at[i].Next = p.Next // and what is finished above that comes again
				}
			}
		}
		w.move(u, o, at, at)
	})
}

func (w *world) control() {
	if w.store.down {
		return
	}
	var units []int // all
	if w.chance(3) {
		units = []int{w.rng.IntN(w.plan.units)}
	}
	w.operate("pause", true, func(g *protocol.Group) error { return g.Pause(context.Background(), "sim", units...) })
	w.later(w.upTo(3*time.Second), func() {
		if !w.store.down && !w.heals {
			w.operate("resume", true, func(g *protocol.Group) error { return g.Resume(context.Background(), "sim") })
		}
	})
}

// heal ends all faults. If no process is left, one is started.
func (w *world) heal() {
	// The last rollback may go far. It is not promised where it forgets what is never repeated: a start of a
	// member that replaced an earlier one, which it makes the valid one again, and the later one ends; and a
	// seek, by which finished records were wanted again.
	if w.plan.has[Rollback] && !w.plan.has[Seeks] && !w.plan.has[Restart] && !w.store.down && w.chance(2) {
		w.store.rollback()
	}
	w.tracef("all faults heal")
	w.heals = true
	w.restore()
	staying := false
	for _, n := range w.nodes {
		n.thaw()
		n.reconnect()
		staying = staying || n.up() && !n.leaving && !w.startedAgain(n)
	}
	if _, ok := w.store.entries[w.store.control]; ok {
		w.store.apply(nil, &registry.Txn{Puts: []registry.Put{{Key: w.store.control, Value: registry.Encode(protocol.Control{})}}})
	}
	if !staying || w.plan.has[Deletion] { // a member that has not noticed yet that the group was deleted goes too
		w.newNode("")
	}
}

// startedAgain reports whether a later process has the same member id: it replaces this one.
func (w *world) startedAgain(n *node) bool {
	later := w.nodes[slices.Index(w.nodes, n)+1:]
	return slices.ContainsFunc(later, func(o *node) bool { return o.name == n.name })
}
