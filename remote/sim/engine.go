package sim

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/remote/core"
)

// The group protocol and the engine, abstracted: owners with a version as the fence, epochs that rise, members that
// end in the store, a hand-over with the checkpoint, one record of a key at a time.

const (
	regTTL      = 5000
	drainTime   = 3000
	maxAttempts = 4
	readAhead   = 30
)

type group struct {
	w       *world
	n       int
	name    string
	workers bool // its members are daemons
	units   []*unit
	members []*member
	newest  map[int]token
	cur     map[int]*hand
	first   map[int]int
}

// unit is a partition as the store has it.
type unit struct {
	part          int
	owner         *member
	epoch         int64
	ver           int
	done          map[int]bool // the checkpoint
	low           int
	attempts      map[int]int
	waitTo, waitV int64
}

// member is a start of a member: of a session, or of a daemon for its workers.
type member struct {
	g             *group
	d             *daemon
	id            string
	alive         bool
	expire        int64
	s             *sess // nil: workers
	pool          *pool
	leaving, gone bool
	runs          map[*unit]*run
}

// run is a unit at its owner.
type run struct {
	m       *member
	u       *unit
	c       *core.Unit
	epoch   int64
	ver     int
	tenure  int64
	next    int
	low     int
	done    map[int]bool
	nodes   map[int]*node // unfinished, by offset
	chains  map[int][]*node
	drainBy int64 // 0: it does not drain
	stopped bool
	dirty   bool
}

// node is a record in an engine.
type node struct {
	r        *rec
	run      *run
	offered  bool
	attempts int
	due      int64
	hand     *hand // the newest
}

// hand is a hand-out as a client gets it.
type hand struct {
	nd    *node
	run   *run
	s     *sess
	n     int64
	token token
	rank  token
	ended bool
}

// plan says which member should own what: sticky, balanced, the same for all that ask.
func (g *group) plan() map[*unit]*member {
	var live []*member
	for _, m := range g.members {
		if m.alive && !m.leaving {
			live = append(live, m)
		}
	}
	out := map[*unit]*member{}
	if len(live) == 0 {
		return out
	}
	most := (len(g.units) + len(live) - 1) / len(live)
	load := map[*member]int{}
	for _, u := range g.units {
		if o := u.owner; o != nil && slices.Contains(live, o) && load[o] < most {
			out[u] = o
			load[o]++
		}
	}
	for _, u := range g.units {
		if out[u] == nil {
			best := slices.MinFunc(live, func(a, b *member) int { return load[a] - load[b] })
			out[u] = best
			load[best]++
		}
	}
	return out
}

func (g *group) grant(u *unit, to *member) {
	u.owner, u.ver, u.waitV = to, u.ver+1, 0
	u.epoch = max(u.epoch+1, g.w.now)
	g.w.moved = g.w.now
}

// tick is what a member does by itself.
func (m *member) tick() {
	w, g := m.g.w, m.g
	if m.gone || !w.regUp || m.d.cutOff > w.now || !m.alive {
		return
	}
	plan := g.plan()
	for _, u := range g.units {
		r, to := m.runs[u], plan[u]
		if r != nil && r.ver != u.ver {
			m.lose(r, "fenced")
			r = nil
		}
		switch {
		case r != nil:
			r.read()
			m.commit(r)
			if r.drainBy == 0 && (m.leaving || to != m && to != nil) {
				r.drainBy = w.now + drainTime
				m.pool.do(func(p *core.Pool) { p.Revoke(w.time(), w.time()+drainTime*time.Millisecond, r.c, "it moves") })
			}
			if r.drainBy == 0 {
				continue
			}
			late := w.now > r.drainBy+1000
			if r.outs() > 0 && !late {
				continue
			}
			if r.outs() > 0 {
				m.lose(r, "the drain took too long")
			}
			m.commit(r)
			m.pool.do(func(p *core.Pool) { p.Revoked(r.c, int64(r.low), "") })
			r.stopped = true
			delete(m.runs, u)
			g.grant(u, to)
		case u.owner == m && to != m && to != nil:
			g.grant(u, to)
		case u.owner == m && !m.leaving:
			m.start(u)
		case to == m && !m.leaving && (u.owner == nil || !u.owner.alive || u.owner.gone):
			g.grant(u, m)
		case to == m && !m.leaving && u.owner != m:
			if u.waitV != int64(u.ver) {
				u.waitV, u.waitTo = int64(u.ver), w.now+drainTime+2000+regTTL
			} else if w.now > u.waitTo {
				g.grant(u, m)
			}
		}
	}
	if m.leaving && len(m.runs) == 0 {
		m.remove()
	}
}

func (m *member) remove() {
	m.gone = true
	m.g.members = slices.DeleteFunc(m.g.members, func(x *member) bool { return x == m })
	for _, u := range m.g.units {
		if u.owner == m {
			u.owner, u.ver = nil, u.ver+1
		}
	}
}

func (m *member) start(u *unit) {
	w := m.g.w
	w.tenures++
	r := &run{
		m: m, u: u, c: &core.Unit{Partition: u.part, Epoch: u.epoch}, epoch: u.epoch, ver: u.ver, tenure: w.tenures,
		next: u.low, low: u.low, done: map[int]bool{}, nodes: map[int]*node{}, chains: map[int][]*node{},
	}
	for o := range u.done {
		r.done[o] = true
	}
	m.runs[u] = r
	w.say("%s %s owns %d in epoch %d from %d", m.g.name, m.id, u.part, u.epoch, u.low)
	m.pool.do(func(p *core.Pool) { p.Begin(r.c, int64(u.low), "", "") })
	r.read()
}

// read takes in what is there, as far as there is room.
func (r *run) read() {
	if r.stopped || r.drainBy != 0 {
		return
	}
	log := r.m.g.w.parts[r.u.part]
	for r.next < len(log) && len(r.nodes) < readAhead {
		x := log[r.next]
		r.next++
		if r.done[x.off] {
			continue
		}
		nd := &node{r: x, run: r, attempts: r.u.attempts[x.off]}
		r.nodes[x.off] = nd
		if r.chains[x.key] = append(r.chains[x.key], nd); len(r.chains[x.key]) == 1 {
			r.lead(nd, 0)
		}
	}
}

// lead gives a record its turn, after a pause.
func (r *run) lead(nd *node, pause int64) {
	w := r.m.g.w
	nd.due = w.now + pause
	w.at(&r.m.d.proc, pause, func() {
		if r.stopped || r.drainBy != 0 || nd.offered || r.done[nd.r.off] || w.now < nd.due {
			return
		}
		nd.offered = true
		last := r.m.g.workers && nd.attempts >= maxAttempts-1
		r.m.pool.do(func(p *core.Pool) {
			p.Offer(w.time(), &core.Record{Unit: r.c, Size: 1, Last: last, Data: nd})
		})
	})
}

func (r *run) outs() (n int) {
	for _, nd := range r.nodes {
		if nd.offered {
			n++
		}
	}
	return n
}

// lose ends a run: no answer counts any more, and nothing more is stored.
func (m *member) lose(r *run, why string) {
	if r.stopped {
		return
	}
	r.stopped = true
	delete(m.runs, r.u)
	m.g.w.say("%s %s loses %d: %s", m.g.name, m.id, r.u.part, why)
	m.pool.do(func(p *core.Pool) { p.Lose(m.g.w.time(), r.c, why) })
}

// answer takes an outcome in. False: no answer counts any more.
func (r *run) answer(nd *node, o core.Outcome) bool {
	w, g := r.m.g.w, r.m.g
	if h := nd.hand; h != nil {
		h.ended = true
	}
	if r.stopped {
		return false
	}
	if !nd.offered {
		w.wrong("%s: a second answer for %d/%d", g.name, nd.r.part, nd.r.off)
	}
	nd.offered = false
	d := &nd.r.did[g.n]
	switch o.How {
	case core.Released:
		r.lead(nd, o.Pause.Milliseconds())
		return true
	case core.Failed:
		nd.attempts++
		r.dirty = r.dirty || g.workers
		if !g.workers || !o.Permanent && nd.attempts < maxAttempts {
			r.lead(nd, w.between(100, 400))
			return true
		}
		d.dead = true
	}
	delete(r.nodes, nd.r.off)
	r.done[nd.r.off] = true
	for r.low < len(w.parts[r.u.part]) && r.done[r.low] {
		r.low++
	}
	r.dirty = true
	c := r.chains[nd.r.key][1:]
	r.chains[nd.r.key] = c
	if len(c) > 0 {
		r.lead(c[0], 0)
	}
	r.read()
	return true
}

// commit stores the progress under the fence.
func (m *member) commit(r *run) {
	g := m.g
	if r.ver != r.u.ver || !r.dirty {
		return
	}
	r.dirty = false
	for o := range r.done {
		d := &g.w.parts[r.u.part][o].did[g.n]
		if !d.stored && d.processed == 0 && !d.dead {
			g.w.wrong("%s: %d/%d is stored as done; its handler never ended well", g.name, r.u.part, o)
		}
		d.stored = true
		r.u.done[o] = true
	}
	r.u.low = r.low
	for o, nd := range r.nodes {
		if g.workers {
			r.u.attempts[o] = nd.attempts
		}
	}
}
