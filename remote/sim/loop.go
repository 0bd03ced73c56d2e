package sim

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/remote/core"
)

// loop is the daemon's clock.
func (d *daemon) loop() {
	w := d.w
	var late time.Duration
	if gap := w.now - d.lastLoop; d.lastLoop > 0 && gap > 800 {
		late = time.Duration(gap) * time.Millisecond
	}
	d.lastLoop = w.now
	up := w.regUp && d.cutOff <= w.now
	for _, m := range d.members() {
		switch {
		case up && m.alive && m.expire >= w.now:
			m.expire = w.now + regTTL
			d.loss = m.expire
		case up:
			d.loseAll(m)
			m.alive, m.expire = true, w.now+regTTL
		case w.now > m.expire:
			d.loseAll(m)
		}
		m.tick()
	}
	pools := map[*pool]bool{}
	for _, s := range slices.Clone(d.sessions) {
		if s.m != nil && s.m.gone && s.core.Over() == "" {
			for _, u := range s.g.units {
				if r := s.m.runs[u]; r != nil {
					s.m.lose(r, "fenced")
				}
			}
			why := core.ByFence
			if d.drainBy > 0 {
				why = core.ByDrain
			}
			s.end(why)
		}
		if s.deadFrom > 0 && s.core.Over() == "" && w.now > s.deadFrom+2*s.c.ttl+3000 && d.trouble < s.deadFrom {
			w.wrong("the stream of %s carries nothing since %d, and the session lives", s.id, s.deadFrom)
		}
		if !pools[s.pool] {
			pools[s.pool] = true
			for _, o := range d.sessions {
				n := 0
				for _, h := range o.out {
					if !h.ended {
						n++
					}
				}
				o.company = n > 1
			}
			s.pool.do(func(p *core.Pool) {
				if late > 0 {
					p.Late(late)
				}
				p.Tick(w.time())
			})
		}
	}
	d.sessions = slices.DeleteFunc(d.sessions, func(s *sess) bool { return s.core.Over() != "" && (s.m == nil || s.m.gone) })
	if m := d.workers; m != nil && !m.leaving {
		if slices.ContainsFunc(d.sessions, func(s *sess) bool { return s.pool == m.pool }) {
			d.idleAt = w.now
		} else if w.now-d.idleAt > 2000 {
			m.leaving = true
		}
	}
	if d.drainBy > 0 && (len(d.members()) == 0 || w.now > d.drainBy+5000) {
		if len(d.members()) > 0 && d.trouble < d.drainBy-drainTime && w.regUp && d.cutOff < d.drainBy-drainTime {
			w.wrong("daemon %s does not end: %d members are left", d.id, len(d.members()))
		}
		for _, s := range slices.Clone(d.sessions) {
			s.end(core.ByDrain)
		}
		d.kill()
		w.at(nil, 500, func() { w.boot(d.name) })
		return
	}
	w.at(&d.proc, 100, d.loop)
}

// drain ends the process in good order.
func (d *daemon) drain() {
	w := d.w
	if d.dead || d.drainBy > 0 || d.stopped > w.now {
		return
	}
	w.say("daemon %s drains", d.id)
	d.drainBy = w.now + drainTime
	for _, s := range slices.Clone(d.sessions) {
		if s.core.Over() != "" {
			continue
		}
		s.pool.do(func(*core.Pool) { s.core.Leave(w.time(), w.time()+drainTime*time.Millisecond) })
		switch {
		case s.m != nil:
			s.m.leaving = true
		case !s.core.Heard():
			s.end(core.ByDrain)
		}
	}
	if d.workers != nil {
		d.workers.leaving = true
	}
}

func (d *daemon) loseAll(m *member) {
	for _, u := range m.g.units {
		if r := m.runs[u]; r != nil {
			m.lose(r, "the registry is away")
		}
	}
}

func (d *daemon) members() (ms []*member) {
	for _, s := range d.sessions {
		if s.m != nil && !s.m.gone {
			ms = append(ms, s.m)
		}
	}
	if d.workers != nil && !d.workers.gone {
		ms = append(ms, d.workers)
	}
	return ms
}

// kill ends the process; its connections end with it.
func (d *daemon) kill() {
	d.dead = true
	d.w.say("daemon %s is dead", d.id)
	for _, s := range d.sessions {
		if s.conn != nil {
			s.conn.finish()
		}
		for _, h := range s.out {
			h.ended = true
		}
	}
}
