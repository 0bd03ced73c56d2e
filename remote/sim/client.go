package sim

import (
	"slices"

	"github.com/ringfence/ringfence/remote/core"
)

// client is a program that consumes, as the protocol asks it to.
type client struct {
	w           *world
	p           *proc
	n           int
	g           *group
	threads     int
	window      int
	ttl, within int64
	paged       bool
	cron        bool // a page reader whose process comes and goes, with session and place in a file
	single      bool // one thread reads, handles and posts
	commits     bool
	member      string
	cs          *csess
	releases    int64 // it gives back all that it gets, until
	off         int64 // fenced by another start of its member: not at once again
}

// csess is what a process of a client knows of a session.
type csess struct {
	c        *client
	p        *proc
	sid      string
	s        *sess // for the judge
	seen     int64
	got      map[int64]int // by line
	queue    []*hand
	running  int
	busy     bool
	lines    []core.Line
	post     core.Post
	beat     bool
	sending  bool
	conn     *conn
	over     bool
	leaving  bool
	asking   bool
	lastLine int64
	best     int64
	stored   int64 // the place in the file
}

// What became of a line.
const (
	inHand = iota + 1
	answered
	committed
)

func (c *client) fresh() *csess {
	cs := &csess{c: c, p: c.p, got: map[int64]int{}, lastLine: c.w.now}
	c.cs = cs
	c.w.at(cs.p, 500, cs.watch)
	return cs
}

// open registers.
func (c *client) open() {
	w := c.w
	if c.off > w.now {
		w.at(c.p, c.off-w.now, c.open)
		return
	}
	cs := c.fresh()
	w.request(cs.p, "", 1500, func(d *daemon, _ *sess, reply func(any)) {
		s := d.create(c)
		if !c.paged {
			k := &conn{s: s, cs: cs}
			s.conn = k
			if cs.conn != nil || cs.over { // a repeated request: nothing reads it
				k.black = true
			} else {
				cs.conn, cs.s = k, s
			}
			s.pool.do(func(*core.Pool) { s.core.Attach(w.time()) })
			s.flush()
		}
		reply(s)
	}, func(v any, status int) {
		switch {
		case cs.over || cs.sid != "":
		case status != ok:
			cs.end()
		case c.paged:
			cs.s = v.(*sess) //nolint:forcetypeassert // see above
			cs.sid = cs.s.id
			cs.page()
		}
	})
}

// end forgets the session, drops what was not begun, and registers anew.
func (cs *csess) end() {
	c, w := cs.c, cs.c.w
	if cs.over {
		return
	}
	cs.over = true
	w.say("client %d: session %s is over", c.n, cs.sid)
	if k := cs.conn; k != nil && !k.closed && !k.black {
		w.at(&k.s.d.proc, w.delay(), k.cut)
	}
	if s := cs.s; s != nil && c.member != "" && s.core.Over() == core.ByFence {
		c.off = w.now + 40000
	}
	cs.queue = nil
	if c.cs == cs {
		w.at(c.p, w.between(100, 1000), func() {
			if c.cs == cs {
				c.open()
			}
		})
	}
}

// watch ends a stream that is silent.
func (cs *csess) watch() {
	w := cs.c.w
	if cs.over || cs.c.cs != cs {
		return
	}
	if !cs.c.paged && !cs.busy && w.now-cs.lastLine > cs.c.ttl {
		cs.end()
		return
	}
	w.at(cs.p, 500, cs.watch)
}

func (cs *csess) streamEnd(k *conn) {
	if cs.conn == k {
		cs.end()
	}
}

// page reads a page after another.
func (cs *csess) page() {
	c, w := cs.c, cs.c.w
	if cs.over || cs.asking || cs.leaving {
		return
	}
	cs.asking = true
	after := cs.seen
	w.request(cs.p, cs.sid, 1500+c.ttl/4, func(_ *daemon, s *sess, reply func(any)) {
		s.pool.do(func(*core.Pool) {
			lines, read, done, err := s.core.Read(w.time(), after)
			switch {
			case err != nil:
				w.wrong("client %d reads after %d: %v", c.n, after, err)
			case done:
				s.page(&get{reply: func(ls []core.Line) { reply(ls) }}, lines)
			default:
				g := &get{read: read, after: after, reply: func(ls []core.Line) { reply(ls) }}
				if s.get != nil {
					s.get.reply(nil)
				}
				s.get = g
				w.at(&s.d.proc, 1500, func() {
					if s.get != g {
						return
					}
					s.pool.do(func(*core.Pool) {
						lines, _ := s.core.Fetch(w.time(), read, after, true)
						s.page(g, lines)
					})
				})
			}
		})
	}, func(v any, status int) {
		switch status {
		case ok:
			for _, l := range v.([]core.Line) { //nolint:forcetypeassert // see above
				cs.raw(l, nil)
			}
			w.at(cs.p, 5, cs.nextPage)
		case over:
			cs.end()
		default:
			w.at(cs.p, 200, cs.nextPage)
		}
	})
}

// nextPage asks for the next page once this one is read.
func (cs *csess) nextPage() {
	if len(cs.lines) > 0 || cs.busy {
		cs.c.w.at(cs.p, 20, cs.nextPage)
		return
	}
	cs.asking = false
	cs.page()
}

// raw is a line that came.
func (cs *csess) raw(l core.Line, k *conn) {
	if cs.over || k != nil && k != cs.conn {
		return
	}
	cs.lastLine = cs.c.w.now
	cs.lines = append(cs.lines, l)
	cs.read()
}

func (cs *csess) read() {
	for len(cs.lines) > 0 && !cs.busy && !cs.over {
		l := cs.lines[0]
		cs.lines = cs.lines[1:]
		cs.line(&l)
	}
}

func (cs *csess) line(l *core.Line) {
	c, w := cs.c, cs.c.w
	if l.N <= cs.seen {
		return
	}
	cs.seen = l.N
	switch l.Kind {
	case core.Opened:
		if !c.paged {
			cs.sid = cs.conn.s.id
		}
		cs.beat = true
		cs.poke()
	case core.Handed:
		if n := len(cs.queue) + cs.running; n >= c.window && !c.cron {
			w.wrong("client %d holds %d records with a window of %d", c.n, n, c.window)
		}
		h := cs.s.out[l.N]
		cs.got[l.N] = inHand
		if c.releases > w.now || cs.leaving {
			cs.release(h.n)
			return
		}
		cs.queue = append(cs.queue, h)
		cs.start()
	case core.Beat:
		cs.beat = true
		cs.poke()
	case core.Cancel, core.Lost:
		for _, n := range l.Records {
			cs.drop(func(h *hand) bool { return h.n == n })
			if cs.got[n] == 0 {
				cs.release(n)
			}
		}
	case core.Revoke:
		cs.drop(func(h *hand) bool { return h.nd.r.part == l.Unit.Partition && h.run.epoch == l.Unit.Epoch })
	case core.Goodbye:
		if l.Until > 0 && !cs.leaving {
			cs.leave()
		}
		if l.Why == core.ByFence {
			c.off = w.now + 40000
		}
	}
}

// drop gives back what was not begun.
func (cs *csess) drop(which func(*hand) bool) {
	cs.queue = slices.DeleteFunc(cs.queue, func(h *hand) bool {
		if which(h) {
			cs.release(h.n)
			return true
		}
		return false
	})
}

func (cs *csess) release(n int64) {
	cs.got[n] = answered
	cs.post.Released = append(cs.post.Released, n)
	cs.poke()
}

// leave ends the session in good order.
func (cs *csess) leave() {
	w := cs.c.w
	cs.leaving = true
	cs.drop(func(*hand) bool { return true })
	var step func()
	step = func() {
		switch {
		case cs.over:
		case cs.running > 0 || cs.sending || !cs.empty():
			w.at(cs.p, 30, step)
		default:
			w.request(cs.p, cs.sid, 1000, func(_ *daemon, s *sess, reply func(any)) {
				s.end(core.ByClient)
				reply(nil)
			}, func(_ any, status int) {
				if status == noReply {
					w.at(cs.p, 100, step)
					return
				}
				cs.end()
			})
		}
	}
	w.at(cs.p, 10, step)
}

func (cs *csess) start() {
	c, w := cs.c, cs.c.w
	for cs.running < c.threads && len(cs.queue) > 0 && !cs.over {
		h := cs.queue[0]
		cs.queue = cs.queue[1:]
		cs.running++
		cs.busy = c.single
		r, d := h.nd.r, &h.nd.r.did[c.g.n]
		if r.kind == poison && (c.g.workers || d.kills < r.fails) {
			w.at(cs.p, w.between(5, 4000), func() {
				d.kills++
				w.say("client %d dies of %d/%d", c.n, r.part, r.off)
				c.kill(w.between(300, 1500))
			})
			continue
		}
		slow := r.slow
		if c.ttl < 4000 && slow > 2000 {
			slow = 900
		}
		w.at(cs.p, slow, func() { cs.handled(h) })
	}
}

// handled is the end of a handler.
func (cs *csess) handled(h *hand) {
	c, w := cs.c, cs.c.w
	r, d := h.nd.r, &h.nd.r.did[c.g.n]
	cs.running--
	f := core.Failure{N: h.n, Error: "no"}
	switch {
	case !w.write(h):
		cs.post.Failed = append(cs.post.Failed, f)
		cs.got[h.n] = answered
	case r.kind == permanent && c.g.workers:
		d.failed++
		f.Permanent = true
		cs.post.Failed = append(cs.post.Failed, f)
		cs.got[h.n] = answered
	case (r.kind == flaky || r.kind == permanent) && d.failed < r.fails:
		d.failed++
		cs.post.Failed = append(cs.post.Failed, f)
		cs.got[h.n] = answered
	default:
		d.processed++
		if c.commits && w.chance(.7) { // both forms mix
			cs.got[h.n] = committed
			cs.best = max(cs.best, h.n)
		} else {
			cs.got[h.n] = answered
			cs.post.Done = append(cs.post.Done, h.n)
		}
	}
	if cs.best > 0 {
		cs.post.Commit = cs.best
		for n, st := range cs.got {
			if st == inHand {
				cs.post.Commit = min(cs.post.Commit, n-1)
			}
		}
	}
	cs.poke()
	cs.busy = false
	cs.start()
	cs.read()
}

// kill ends the process; another begins.
func (c *client) kill(pause int64) {
	w, cs := c.w, c.cs
	c.p.dead = true
	c.p = &proc{}
	w.say("client %d is killed", c.n)
	if cs != nil {
		if k := cs.conn; k != nil && !k.black {
			w.at(&k.s.d.proc, w.delay(), k.cut)
		}
		was := cs.over
		cs.over = true
		if c.cron && cs.sid != "" && !was {
			w.at(c.p, pause, func() {
				ns := c.fresh()
				ns.sid, ns.s, ns.seen, ns.stored = cs.sid, cs.s, cs.stored, cs.stored
				ns.page()
			})
			return
		}
	}
	w.at(c.p, pause, c.open)
}
