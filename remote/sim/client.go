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

// The outcomes of a request.
const (
	noReply = iota
	ok
	over
)

// request goes to the daemon of a session, or to any for a new one. It may be lost on both ways, late, and repeated.
func (w *world) request(p *proc, sid string, patience int64, exec func(*daemon, *sess, func(any)), reply func(any, int)) {
	told := false
	back := func(v any, status int) {
		if w.faulty && w.chance(w.lossP) {
			return
		}
		w.at(p, w.delay(), func() {
			if !told {
				told = true
				reply(v, status)
			}
		})
	}
	w.at(p, patience, func() {
		if !told {
			told = true
			reply(nil, noReply)
		}
	})
	var to *daemon
	var s *sess
	for _, d := range w.daemons {
		for _, x := range d.sessions {
			if sid != "" && x.id == sid {
				to, s = d, x
			}
		}
	}
	if sid == "" {
		to = w.daemons[w.r.IntN(len(w.daemons))]
	}
	arrive := func() {
		if sid != "" && (s == nil || s.core.Over() != "") {
			back(nil, over)
			return
		}
		exec(to, s, func(v any) { back(v, ok) })
	}
	var at *proc
	switch {
	case to != nil && !to.dead && (sid != "" || to.drainBy == 0):
		at = &to.proc
	case sid == "":
		return
	default:
		s = nil
	}
	for n := 1 + b2i(w.faulty && w.chance(w.dupP)); n > 0; n-- {
		if !w.faulty || !w.chance(w.lossP) {
			w.at(at, w.delay(), arrive)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
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

func (cs *csess) empty() bool {
	p := &cs.post
	return !cs.beat && len(p.Done)+len(p.Failed)+len(p.Released) == 0 && p.Commit == 0
}

// posted is what became of a POST, the first time and each other time.
type posted struct {
	refused []core.Refusal
	sent    int64 // the newest line then
	done    bool
}

// poke sends what has gathered, one request at a time; one without a reply is repeated as it is.
func (cs *csess) poke() {
	c, w := cs.c, cs.c.w
	if cs.sending || cs.sid == "" || cs.empty() || cs.over {
		return
	}
	cs.sending = true
	var body core.Post
	var first posted
	var send func()
	again := false
	send = func() {
		if cs.over {
			return
		}
		w.request(cs.p, cs.sid, c.ttl/4, func(_ *daemon, s *sess, reply func(any)) {
			var refused []core.Refusal
			var err error
			life := s.core.Life()
			lost := s.pool.do(func(*core.Pool) { refused, err = s.core.Answers(w.time(), &body) })
			if err != nil {
				w.wrong("client %d posts %+v: %v", c.n, body, err)
			}
			for _, r := range lost {
				refused = append(refused, core.Refusal{N: r.Line(), Why: core.Fenced})
			}
			named := slices.DeleteFunc(slices.Clone(refused), func(r core.Refusal) bool { return cs.got[r.N] == committed })
			slices.SortFunc(named, func(a, b core.Refusal) int { return int(a.N - b.N) })
			switch {
			case !first.done:
				first = posted{named, s.core.Sent(), true}
			case s.core.Life() != life:
				w.wrong("a repeated POST of client %d moved the deadline", c.n)
			case !slices.Equal(named, first.refused) && s.core.Sent() < first.sent+int64(c.window):
				w.wrong("a repeated POST of client %d got the reply %v, the first one %v", c.n, named, first.refused)
			}
			reply(refused)
		}, func(v any, status int) {
			switch status {
			case ok:
				for _, r := range v.([]core.Refusal) { //nolint:forcetypeassert // see above
					if r.Why == core.Unknown && !c.cron {
						w.wrong("client %d answered n=%d (again: %v) and was told %s", c.n, r.N, again, r.Why)
					}
				}
				cs.sending = false
				cs.place(body.Seen, body.Commit)
				cs.poke()
			case over:
				cs.end()
			default:
				again = true
				w.at(cs.p, 100, send)
			}
		})
	}
	w.at(cs.p, 2, func() { // answers gather meanwhile
		body = cs.post
		body.Seen = cs.seen
		cs.post, cs.beat = core.Post{}, false
		send()
	})
}

// place moves the place in the file: all records up to there have their answer.
func (cs *csess) place(seen, commit int64) {
	if !cs.empty() {
		return
	}
	low := seen
	for n, st := range cs.got {
		if st == inHand || st == committed && n > commit {
			low = min(low, n-1)
		}
	}
	cs.stored = max(cs.stored, low)
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
