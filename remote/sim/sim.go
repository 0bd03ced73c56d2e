package sim

import (
	"math/rand/v2"
	"slices"
)

const (
	faultsEnd = 45000
	produced  = 42000
	theEnd    = 600000 // when all has to be done
	calm      = 75000  // what the judge looks at behind that, but for its beginning
)

// Run runs a history.
func Run(cfg Config) Result {
	w := &world{
		r: rand.New(rand.NewPCG(cfg.Seed, 7)), trace: cfg.Trace, faulty: true, regUp: true, //nolint:gosec // a seed gives the same history
		parts: make([][]*rec, partitions), seqs: map[int]int{}, written: map[[2]int]*mark{},
	}
	pick := func(ps ...float64) float64 { return ps[w.r.IntN(len(ps))] }
	w.lossP, w.dupP, w.slowP = pick(0, .01, .05), pick(0, .02, .1), pick(0, .005, .03)
	for n, name := range []string{"members", "workers"} {
		g := &group{w: w, n: n, name: name, workers: n == 1, newest: map[int]token{}, cur: map[int]*hand{}, first: map[int]int{}}
		for p := range partitions {
			g.units = append(g.units, &unit{part: p, done: map[int]bool{}, attempts: map[int]int{}})
		}
		w.groups = append(w.groups, g)
	}
	w.boot("A")
	w.boot("B")
	w.same = w.chance(.12)
	for i := range 4 + w.r.IntN(3) {
		w.begin(i)
	}
	w.store()
	w.grow()
	for range 4 + w.r.IntN(16) {
		w.at(nil, w.between(1500, faultsEnd), w.fault)
	}
	w.at(nil, faultsEnd+1, func() { w.faulty = false })
	for w.now < theEnd && w.err == nil {
		if w.run(w.now + 15000); w.now > 2*faultsEnd && w.finished() {
			break
		}
	}
	w.end = w.now
	w.run(w.end + calm)
	if w.err == nil {
		w.judge()
	}
	return Result{Seed: cfg.Seed, Err: w.err, Steps: w.steps}
}

// begin starts a client of some kind.
func (w *world) begin(i int) {
	c := &client{w: w, p: &proc{}, n: i, g: w.groups[i%2], threads: 1 + w.r.IntN(6), window: 1 + w.r.IntN(24), ttl: 6000}
	switch w.r.IntN(6) {
	case 1:
		c.paged = true
	case 2:
		c.paged, c.cron = true, true
	case 3:
		c.single, c.threads, c.ttl = true, 1, 12000*2
		c.window = 1 + w.r.IntN(3)
	case 4:
		c.ttl = 3000
	}
	c.commits = w.chance(.4) && !c.cron
	switch {
	case c.paged:
		c.within = 30000
	case w.chance(.15) && !c.single:
		c.within, c.window = 14000, c.threads
	}
	if w.same && i%2 == 0 && i < 4 {
		c.member = "same"
	}
	w.clients = append(w.clients, c)
	w.at(c.p, w.between(0, 1500), c.open)
}

// store ends what the registry has not heard of for long.
func (w *world) store() {
	if w.regUp {
		for _, g := range w.groups {
			for _, m := range slices.Clone(g.members) {
				if m.expire < w.now {
					m.alive = false
				}
				if !m.alive && m.d.dead {
					g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
				}
			}
		}
	}
	w.at(nil, 100, w.store)
}

// grow produces.
func (w *world) grow() {
	if w.now >= produced {
		return
	}
	for range 1 + w.r.IntN(3) {
		w.produce()
	}
	for _, d := range w.daemons {
		if d.dead || d.stopped > w.now {
			continue
		}
		for _, m := range d.members() {
			for _, u := range m.g.units {
				if r := m.runs[u]; r != nil {
					r.read()
				}
			}
		}
	}
	w.at(nil, w.between(50, 500), w.grow)
}

// fault does something to a client, a stream, a daemon or the registry.
func (w *world) fault() {
	c := w.clients[w.r.IntN(len(w.clients))]
	d := w.daemons[w.r.IntN(len(w.daemons))]
	cs := c.cs
	var k *conn
	if cs != nil && !cs.over {
		k = cs.conn
	}
	long := w.between(300, 9000)
	switch w.r.IntN(15) {
	case 0, 1:
		if k != nil && !k.black && !k.closed {
			w.say("the stream of client %d is cut", c.n)
			w.at(&k.s.d.proc, w.between(1, 400), k.cut)
			w.at(cs.p, w.between(1, 400), func() { cs.streamEnd(k) })
		}
	case 2, 3:
		if k != nil && !k.closed {
			w.say("the stream of client %d is dead without a sign", c.n)
			k.black = true
			k.s.deadFrom = w.now
		}
	case 4:
		if k != nil {
			w.say("a proxy holds the stream of client %d for %d ms", c.n, long)
			k.hold = w.now + long
		}
	case 5, 6:
		c.kill(w.between(200, 5000))
	case 7:
		w.say("client %d stands still for %d ms", c.n, long+2000)
		c.p.stopped = max(c.p.stopped, w.now+long+2000)
	case 8:
		if cs != nil && !cs.over && cs.sid != "" && !cs.leaving {
			w.say("client %d leaves", c.n)
			cs.leave()
		}
	case 9:
		c.releases = w.now + 2500
	case 10:
		if d.dead {
			return
		}
		d.kill()
		w.at(nil, w.between(300, 4000), func() { w.boot(d.name) })
	case 11:
		w.say("daemon %s stands still for %d ms", d.id, long)
		d.stopped, d.trouble = max(d.stopped, w.now+long), max(d.trouble, w.now+long+1000)
	case 12:
		w.say("daemon %s is cut from the registry for %d ms", d.id, long)
		d.cutOff, d.trouble = w.now+long, w.now+long+regTTL
	case 13:
		d.drain()
	case 14:
		if w.regUp {
			w.say("the registry is away for %d ms", long)
			w.regUp = false
			w.at(nil, long, func() { w.regUp = true })
		}
	}
}

// finished reports whether all records are stored as done.
func (w *world) finished() bool {
	for _, g := range w.groups {
		for _, u := range g.units {
			if u.low < len(w.parts[u.part]) {
				return false
			}
		}
	}
	return true
}

// judge looks at the end, when faults are long over.
func (w *world) judge() {
	for _, g := range w.groups {
		for _, u := range g.units {
			for _, r := range w.parts[u.part] {
				if !u.done[r.off] {
					w.wrong("%s: %d/%d of key %d and kind %d is not done", g.name, r.part, r.off, r.key, r.kind)
				}
				if g.workers && r.kind == poison && !r.did[g.n].dead {
					w.wrong("%s: %d/%d kills each worker and became no dead letter", g.name, r.part, r.off)
				}
			}
		}
	}
	for _, d := range w.daemons {
		for _, s := range d.sessions {
			if s.core.Over() == "" && s.core.Out() > 0 {
				w.wrong("%s holds %d places with nothing to do", s.id, s.core.Out())
			}
		}
	}
	for _, c := range w.clients {
		cs := c.cs
		if cs == nil || cs.over || cs.sid == "" || c.off > w.now {
			continue
		}
		if cs.s.core.Over() != "" || cs.s.d.dead {
			w.wrong("client %d still waits for lines of session %s, which is over", c.n, cs.sid)
		}
	}
	if w.fences > 4 {
		w.wrong("%d sessions of one member were fenced in the last minute", w.fences)
	}
	if w.moved > w.end+15000 && !w.same {
		w.wrong("ownership still moves at %d ms", w.moved)
	}
}
