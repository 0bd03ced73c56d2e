package sim

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/registry"
)

// request is one call of a node over the network.
type request struct {
	n        *node
	answered bool
	joins    bool // it puts a member entry
	sent     asked
	serve    func() core.Event // at the store; what it answers
	lost     func() core.Event // the node's own conclusion without an answer
	refused  func() core.Event // the answer of a store that is down: nothing was done
}

// send takes a request to the store and the answer back, as far as the faults let it.
func (n *node) send(r *request) {
	w := n.w
	patience, leads := n.w.plan.ttl/2+w.upTo(n.w.plan.ttl), w.store.nonce
	n.in(patience, func() { r.answer(r.lost()) })
	if n.dropped(Loss) {
		r.breaks()
		return
	}
	w.later(n.latency(), func() {
		if w.store.down {
			r.reply(r.refused())
			return
		}
		n.lateCall, n.crossed = r.answered, w.store.nonce != leads
		ev := r.serve()
		n.lateCall = false
		if ev == nil {
			return
		}
		if n.dropped(LostReply) || n.dropped(Loss) || r.joins && n.late() {
			r.breaks()
			return
		}
		r.reply(ev)
	})
}

// breaks is a connection that fails: the node may notice before it runs out of patience.
func (r *request) breaks() {
	if r.n.w.chance(2) {
		r.n.in(r.n.w.upTo(r.n.w.plan.ttl), func() { r.answer(r.lost()) })
	}
}

func (r *request) reply(ev core.Event) {
	w := r.n.w
	r.n.in(r.n.latency(), func() { r.answer(ev) })
	if w.plan.has[Duplicate] && !w.heals && w.chance(4) {
		r.n.in(r.n.latency()+w.upTo(time.Second), func() { r.n.step(ev) })
	}
}

func (r *request) answer(ev core.Event) {
	if r.answered {
		if e, ok := ev.(core.SessionOpened); ok && e.Session != "" {
			r.n.closeSession(e.Session) // no caller waits for it any more
		}
		return
	}
	r.answered = true
	if e, ok := ev.(core.SessionOpened); ok {
		r.n.session, r.n.renewed = e.Session, r.sent
		r.n.told = r.n.deadline()
		e.Lease = r.n.told
		ev = e
	}
	r.n.step(ev)
}

// dropped reports whether the network swallows a message now.
func (n *node) dropped(kind Fault) bool {
	if n.w.heals {
		return false
	}
	return n.cutOff || n.w.plan.has[kind] && n.w.chance(8)
}

func (n *node) latency() time.Duration {
	if n.w.plan.has[Delay] && !n.w.heals && n.w.chance(10) {
		return n.w.upTo(3 * n.w.plan.ttl)
	}
	return n.w.brief()
}

func (n *node) load(e core.Load) {
	unavailable := func() core.Event { return core.Loaded{ID: e.ID, Err: registry.ErrUnavailable} }
	r := &request{n: n, lost: unavailable, refused: unavailable}
	r.serve = func() core.Event {
		if n.w.healing(n) {
			return unavailable()
		}
		st := n.w.store.list()
		n.w.later(n.reads(), func() { // the second reading
			if n.w.store.down || n.dropped(Loss) {
				r.reply(unavailable())
				return
			}
			n.w.store.listCheckpoints(st)
			ev := core.Loaded{ID: e.ID, State: st}
			if e.Layout {
				ev.Layout = n.w.layout()
			}
			r.reply(ev)
		})
		return nil
	}
	n.send(r)
}

// late reports whether the answer to a join is lost. Its session may end before the member hears of it.
func (n *node) late() bool {
	w := n.w
	if !w.plan.has[LateJoin] || w.heals || w.chance(3) {
		return false
	}
	if id := n.session; w.chance(2) {
		w.later(w.upTo(w.plan.ttl), func() {
			if !w.store.down && !w.heals {
				w.store.end(id, "the store ended it")
			}
		})
	}
	return true
}

// reads is how long a reading takes at the store.
func (n *node) reads() time.Duration {
	if n.w.plan.has[Slow] {
		return n.w.upTo(n.w.plan.commit * 2)
	}
	return n.w.brief()
}

func (n *node) apply(e core.Apply) {
	gaveUp := make([]bool, len(n.workers))
	for u, k := range n.workers {
		gaveUp[u] = k != nil && k.abandoned()
	}
	n.send(&request{
		n: n, joins: slices.ContainsFunc(e.Txns, func(t registry.Txn) bool { return len(t.Puts) > 0 && t.Puts[0].Session != "" }),
		lost:    func() core.Event { return core.Applied{ID: e.ID, Err: registry.ErrUnknown} },
		refused: func() core.Event { return core.Applied{ID: e.ID, Err: registry.ErrUnavailable} },
		serve: func() core.Event {
			n.gaveUp = gaveUp
			results := make([]registry.Result, len(e.Txns))
			torn := len(e.Txns)
			if n.w.plan.has[Torn] && !n.w.heals && n.w.chance(4) {
				torn = n.w.rng.IntN(torn + 1)
			}
			for i := range e.Txns {
				if i >= torn && n.w.chance(2) {
					results[i] = registry.Result{Err: registry.ErrUnknown} // and it was not applied
					continue
				}
				results[i] = n.w.store.apply(n, &e.Txns[i])
				if i >= torn {
					results[i] = registry.Result{Err: registry.ErrUnknown}
				}
			}
			return core.Applied{ID: e.ID, Results: results}
		},
	})
}

func (n *node) openSession(id uint64) {
	unavailable := func() core.Event { return core.SessionOpened{ID: id, Err: registry.ErrUnavailable} }
	r := &request{n: n, sent: asked{n.clock(), n.slept}, lost: unavailable, refused: unavailable}
	r.serve = func() core.Event {
		return core.SessionOpened{ID: id, Session: n.w.store.open(n).id}
	}
	n.send(r)
	// The driver renews a session from the moment it has it.
	n.when(r.sent.at+n.w.plan.ttl/3, n.renew)
}

// renew is the driver's loop: every third of the TTL a renewal is sent, whatever became of the last.
func (n *node) renew() {
	if !n.up() || n.renewing {
		return
	}
	n.renewing = true
	n.when(n.clock()+n.w.plan.ttl/3, func() { n.renewing = false; n.renew() })
	id, sent := n.session, asked{n.clock(), n.slept}
	if id == "" || n.dropped(Loss) {
		return
	}
	n.w.later(n.latency(), func() {
		if n.w.store.down {
			return
		}
		alive := n.w.store.renew(id)
		if n.dropped(LostReply) {
			return
		}
		n.in(n.latency(), func() {
			if alive && id == n.session {
				if sent.at > n.renewed.at {
					n.renewed = sent
				}
				n.look() // the driver does not tell; whatever comes next does
			} else if !alive {
				n.step(core.SessionLost{Session: id})
			}
		})
	})
}

func (n *node) closeSession(id string) {
	if id == "" {
		return
	}
	if n.session == id {
		n.session = ""
	}
	if n.dropped(Loss) {
		return // it will expire
	}
	n.w.later(n.latency(), func() {
		if !n.w.store.down {
			n.w.store.end(id, "closed")
		}
	})
}

// hint signals a change to every watch.
func (w *world) hint() {
	for _, n := range w.nodes {
		if !n.up() || n.deaf || n.cutOff && !w.heals {
			continue
		}
		if !n.hinted {
			n.hinted = true // as a channel that holds one
			n.in(n.latency(), func() { n.hinted = false; n.step(core.Changed{}) })
		}
	}
}
