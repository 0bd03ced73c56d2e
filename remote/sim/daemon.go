package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/remote/core"
)

// daemon is a start of a process that has sessions.
type daemon struct {
	proc
	w        *world
	name, id string
	cutOff   int64 // from the registry, until
	loss     int64 // when its ownership ends unless it hears of the registry
	trouble  int64 // until then it is not well
	lastLoop int64
	sessions []*sess
	gone     map[string]string // why a session is over
	workers  *member
	pool     *pool // of workers
	idleAt   int64
	handed   uint64
	drainBy  int64 // 0: it does not end
}

// pool carries out what a core asks for.
type pool struct {
	d       *daemon
	core    *core.Pool
	of      map[*core.Session]*sess
	working bool
	refused []*core.Record
}

func (d *daemon) newPool(workers bool) *pool {
	return &pool{d: d, of: map[*core.Session]*sess{}, core: core.NewPool(workers, func() uint64 {
		d.handed++
		return d.handed
	})}
}

// do lets f change the core, and carries out the effects. It returns the records whose answers were not taken.
func (p *pool) do(f func(*core.Pool)) (refused []*core.Record) {
	f(p.core)
	if p.working {
		return nil
	}
	p.working = true
	for effects := p.core.Effects(); len(effects) > 0; effects = p.core.Effects() {
		for _, e := range effects {
			p.carryOut(&e)
		}
	}
	p.working = false
	refused, p.refused = p.refused, nil
	return refused
}

func (p *pool) carryOut(e *core.Effect) {
	s := p.of[e.Session]
	switch e.Kind {
	case core.Answer:
		nd := e.Record.Data.(*node) //nolint:forcetypeassert // nothing else is offered
		w := p.d.w
		if s != nil && e.Outcome.How == core.Failed && e.Record.Last && s.core.Over() != "" && s.company {
			w.wrong("the crash of %s used up the last attempt of %d/%d, which was out in company", s.id, nd.r.part, nd.r.off)
		}
		if !nd.run.answer(nd, e.Outcome) && s != nil {
			s.core.Refused(e.Record.Line())
			p.refused = append(p.refused, e.Record)
		}
	case core.Join:
		s.join()
	case core.Wake:
		s.flush()
	case core.Ended:
		s.flush()
		s.ended()
	}
}

// sess is a session at its daemon.
type sess struct {
	d        *daemon
	g        *group
	c        *client
	id       string
	pool     *pool
	core     *core.Session
	m        *member
	conn     *conn
	get      *get
	out      map[int64]*hand // sent, as a client could have them
	company  bool            // several were out at its end
	deadFrom int64           // its stream carries nothing since
}

// conn is a stream.
type conn struct {
	s      *sess
	cs     *csess
	black  bool // it carries nothing any more, without a sign
	closed bool
	hold   int64
	last   int64
}

// get is a read of a page that waits.
type get struct {
	read  uint64
	after int64
	reply func([]core.Line)
}

func (d *daemon) create(c *client) *sess {
	w := d.w
	w.ids++
	s := &sess{d: d, g: c.g, c: c, id: fmt.Sprintf("%s-%d", d.id, w.ids), out: map[int64]*hand{}}
	if c.g.workers {
		if d.pool == nil || d.workers != nil && (d.workers.leaving || d.workers.gone) {
			d.pool, d.workers = d.newPool(true), nil
		}
		s.pool = d.pool
	} else {
		s.pool = d.newPool(false)
	}
	d.sessions = append(d.sessions, s)
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	s.pool.do(func(p *core.Pool) {
		s.core = p.Open(w.time(), core.Config{Window: c.window, WindowBytes: 1 << 20, TTL: ms(c.ttl), Within: ms(c.within), Paged: c.paged})
		s.pool.of[s.core] = s
	})
	return s
}

// join makes the session one that takes records.
func (s *sess) join() {
	d, g, w := s.d, s.g, s.d.w
	if d.drainBy > 0 {
		return
	}
	if g.workers {
		if d.workers == nil {
			d.workers = &member{g: g, d: d, id: "workers of " + d.id, alive: true, expire: w.now + regTTL, pool: s.pool, runs: map[*unit]*run{}}
			g.members = append(g.members, d.workers)
		}
		return
	}
	s.m = &member{g: g, d: d, id: s.id, alive: true, expire: w.now + regTTL, s: s, pool: s.pool, runs: map[*unit]*run{}}
	if s.c.member != "" {
		s.m.id = s.c.member
		for _, o := range slices.Clone(g.members) {
			if o.id == s.c.member {
				o.remove()
			}
		}
	}
	g.members = append(g.members, s.m)
}

// flush sends what there is to the reader.
func (s *sess) flush() {
	w := s.d.w
	if k := s.conn; k != nil && !k.closed {
		for _, l := range s.core.Take(w.time()) {
			s.gave(&l)
			k.send(l)
		}
	}
	if g := s.get; g != nil {
		if lines, done := s.core.Fetch(w.time(), g.read, g.after, false); done {
			s.page(g, lines)
		}
	}
}

func (s *sess) page(g *get, lines []core.Line) {
	s.get = nil
	for i := range lines {
		s.gave(&lines[i])
	}
	g.reply(lines)
}

// gave judges a hand-out when it is sent.
func (s *sess) gave(l *core.Line) {
	if l.Kind != core.Handed || s.out[l.N] != nil {
		return
	}
	w, g := s.d.w, s.g
	nd := l.Record.Data.(*node) //nolint:forcetypeassert // nothing else is offered
	r := nd.run
	h := &hand{nd: nd, run: r, s: s, n: l.N}
	h.token = token{r.epoch, int64(l.Record.Token)} //nolint:gosec // it is small
	h.rank = token{r.tenure, h.token[1]}
	s.out[l.N] = h
	nd.hand = h
	w.say("%s gives %d/%d key %d as n=%d token %v", s.id, nd.r.part, nd.r.off, nd.r.key, l.N, h.token)
	d := &nd.r.did[g.n]
	if d.handouts++; d.handouts > 150 {
		w.wrong("%s: %d/%d was handed out 150 times", g.name, nd.r.part, nd.r.off)
	}
	if r.ver == r.u.ver && !r.stopped {
		if c := g.cur[nd.r.key]; c != nil && !c.ended && !c.run.stopped && c.run.ver == c.run.u.ver && c.s.core.Over() == "" && !c.s.d.dead {
			w.wrong("%s: %d/%d of key %d is handed out while %d/%d is out", g.name, nd.r.part, nd.r.off, nd.r.key, c.nd.r.part, c.nd.r.off)
		}
		g.cur[nd.r.key] = h
		if g.newest[nd.r.key].less(h.rank) {
			g.newest[nd.r.key] = h.rank
		}
	}
	if !d.first {
		d.first = true
		if f, ok := g.first[nd.r.key]; ok && f > nd.r.seq {
			w.wrong("%s: key %d gets record %d after %d", g.name, nd.r.key, nd.r.seq, f)
		}
		g.first[nd.r.key] = nd.r.seq
	}
}

func (k *conn) send(l core.Line) {
	w := k.s.d.w
	if k.black || k.closed {
		return
	}
	k.last = max(k.last, k.hold, w.now+w.between(1, 8))
	w.at(k.cs.p, k.last-w.now, func() {
		if !k.black {
			k.cs.raw(l, k)
		}
	})
}

// finish ends a stream behind what was sent.
func (k *conn) finish() {
	if k.closed || k.black {
		return
	}
	k.closed = true
	k.last = max(k.last, k.hold, k.s.d.w.now+k.s.d.w.between(1, 8))
	k.s.d.w.at(k.cs.p, k.last-k.s.d.w.now, func() { k.cs.streamEnd(k) })
}

// cut is the end of a stream as the daemon sees it.
func (k *conn) cut() {
	if k.closed {
		return
	}
	k.closed = true
	k.s.end(core.ByCut)
}

func (s *sess) end(why string) {
	n := 0
	for _, h := range s.out {
		if !h.ended {
			n++
		}
	}
	s.company = n > 1
	s.pool.do(func(*core.Pool) { s.core.End(s.d.w.time(), why) })
}

// ended is called when the session is over.
func (s *sess) ended() {
	w := s.d.w
	why := s.core.Over()
	w.say("%s is over: %s", s.id, why)
	s.d.gone[s.id] = why
	if why == core.ByFence && w.end > 0 && w.now > w.end {
		w.fences++
	}
	if s.conn != nil {
		s.conn.finish()
	}
	if g := s.get; g != nil {
		s.page(g, nil)
	}
	if s.m != nil {
		s.m.leaving = true
	}
}

func (w *world) boot(name string) {
	w.ids++
	d := &daemon{w: w, name: name, id: fmt.Sprintf("%s.%d", name, w.ids), gone: map[string]string{}}
	w.daemons = slices.DeleteFunc(w.daemons, func(x *daemon) bool { return x.name == name })
	w.daemons = append(w.daemons, d)
	slices.SortFunc(w.daemons, func(a, b *daemon) int { return int(a.name[0]) - int(b.name[0]) })
	d.loop()
}
