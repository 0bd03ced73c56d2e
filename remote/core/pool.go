package core

import (
	"slices"
	"time"
)

// Unit is a partition of a group, or a shard of a subscription, for as long as one run of it lasts.
type Unit struct {
	Storage, Partition int
	Epoch              int64

	draining bool // it hands nothing out any more
	over     bool // no answer counts any more
}

// Record is a record that has its turn. The pool owns all fields but the first four from Offer until its answer.
type Record struct {
	Unit *Unit
	Size int  // what it takes of a window's bytes
	Last bool // one more failed attempt, and it is given up
	Data any  // what the caller knows it by

	Token uint64 // the number of the newest hand-out

	session *Session
	n       int64
	since   time.Duration // when it was offered
	sentAt  time.Duration // when it was handed out
	void    bool          // it is not the session's any more, and waits for the answer that frees its place
}

// Pool hands the records of units out to sessions: to the one session of a member, or to all workers of a
// subscription. Times are those of one clock of the daemon that does not go back.
type Pool struct {
	workers  bool
	handOut  func() uint64
	sessions []*Session
	queue    []*Record // that have their turn, the oldest first
	lasts    []*Record // of workers: those at their last attempt
	effects  []Effect
}

// NewPool makes a pool. handOut counts all that the process hands out.
func NewPool(workers bool, handOut func() uint64) *Pool {
	return &Pool{workers: workers, handOut: handOut}
}

// Effect is something that the caller has to do.
type Effect struct {
	Kind    EffectKind
	Session *Session
	Record  *Record // of Answer
	Outcome Outcome // of Answer
}

// EffectKind is the kind of an effect.
type EffectKind uint8

// The effects.
const (
	Answer EffectKind = iota // give the engine the outcome of a record
	Join                     // the session was heard: it takes part from now on
	Wake                     // there are lines for the session's reader
	Ended                    // the session is over
)

// Outcome is what becomes of a record.
type Outcome struct {
	How       How
	Error     string        // of Failed
	Pause     time.Duration // before the next attempt; 0: what the policy says, and with Released, none
	Permanent bool
	Outage    bool
}

// How a hand-out ended.
type How uint8

// The ways to end. The zero value is none of them.
const (
	Done How = iota + 1
	Failed
	Released // no attempt counts
	void     // remembered only
)

// Effects returns what is to be done since the last call, in order.
func (p *Pool) Effects() []Effect {
	e := p.effects
	p.effects = nil
	return e
}

func (p *Pool) effect(e Effect) { p.effects = append(p.effects, e) }

func (p *Pool) answer(r *Record, o Outcome) {
	p.effect(Effect{Kind: Answer, Session: r.session, Record: r, Outcome: o})
}

// Sessions returns the sessions that are not over.
func (p *Pool) Sessions() []*Session { return p.sessions }

// Begin tells a member of a unit that it owns from now on.
func (p *Pool) Begin(u *Unit, checkpoint int64, from, why string) {
	p.tell(Line{Kind: Assigned, Unit: u, Checkpoint: checkpoint, Other: from, Why: why})
}

// tell adds a line about a unit for members; workers learn of their records only.
func (p *Pool) tell(l Line) {
	if p.workers {
		return
	}
	for _, s := range p.sessions {
		s.add(l)
	}
}

// Offer takes a record that has its turn.
func (p *Pool) Offer(now time.Duration, r *Record) {
	r.since, r.session, r.n, r.void = now, nil, 0, false
	switch {
	case r.Unit.draining || r.Unit.over:
		p.answer(r, Outcome{How: Released})
		return
	case !p.workers && (len(p.sessions) == 0 || p.sessions[0].leaving): // the member is about to leave
		p.answer(r, Outcome{How: Released, Pause: time.Second})
		return
	case p.workers && r.Last:
		p.lasts = append(p.lasts, r)
	default:
		p.queue = append(p.queue, r)
	}
	p.pump(now)
}

// Revoke begins the drain of a unit: what was not handed out is given back at once.
func (p *Pool) Revoke(now, until time.Duration, u *Unit, why string) {
	if u.draining || u.over {
		return
	}
	u.draining = true
	p.unqueue(u)
	for _, s := range p.sessions {
		s.unsend(u)
	}
	p.tell(Line{Kind: Revoke, Unit: u, Until: until, Why: why})
	p.pump(now)
}

// Revoked ends a unit in good order: its checkpoint was handed over.
func (p *Pool) Revoked(u *Unit, checkpoint int64, to string) {
	if u.over {
		return
	}
	u.over = true
	p.tell(Line{Kind: Revoked, Unit: u, Checkpoint: checkpoint, Other: to})
}

// Lose ends a unit whose answers count no more. Its records get an answer, which the engine refuses: it waits for one.
func (p *Pool) Lose(now time.Duration, u *Unit, why string) {
	if u.over {
		return
	}
	u.draining, u.over = true, true
	p.unqueue(u)
	for _, s := range p.sessions {
		var lost []int64
		s.unsend(u)
		for _, r := range s.sorted() {
			if r.Unit == u && !r.void {
				s.void(r, Outcome{How: Released})
				lost = append(lost, r.n)
			}
		}
		switch {
		case !p.workers:
			s.add(Line{Kind: Lost, Unit: u, Records: lost, Why: why})
		case len(lost) > 0:
			s.add(Line{Kind: Cancel, Records: lost, Why: why})
		}
	}
	p.pump(now)
}

// unqueue gives back what waits of a unit; nil: of all units.
func (p *Pool) unqueue(u *Unit) {
	back := func(r *Record) bool {
		if u != nil && r.Unit != u {
			return false
		}
		p.answer(r, Outcome{How: Released})
		return true
	}
	p.queue, p.lasts = slices.DeleteFunc(p.queue, back), slices.DeleteFunc(p.lasts, back)
}

// pump hands out what has its turn, as far as there is room. A record at its last attempt goes to a session that has
// nothing else, so that a crash tells which record it was; if there is none for too long, it goes in company.
func (p *Pool) pump(now time.Duration) {
	var reserved *Session
	p.lasts = slices.DeleteFunc(p.lasts, func(r *Record) bool {
		s := p.pick(r, reserved, true)
		if s == nil {
			b := p.pick(r, reserved, false)
			switch {
			case b == nil:
			case now-r.since >= b.cfg.TTL:
				s = b
			case reserved == nil:
				reserved = b
			}
		}
		if s != nil {
			s.hand(now, r)
		}
		return s != nil
	})
	k := 0
	for ; k < len(p.queue); k++ {
		s := p.pick(p.queue[k], reserved, false)
		if s == nil {
			break
		}
		s.hand(now, p.queue[k])
		p.queue[k] = nil
	}
	if p.queue = p.queue[k:]; len(p.queue) == 0 {
		p.queue = nil
	}
}

// pick returns the session with the fewest records out among those with room for r; nil: there is none.
func (p *Pool) pick(r *Record, but *Session, empty bool) *Session {
	var best *Session
	for _, s := range p.sessions {
		if s == but || !s.room(r) || empty && len(s.out) > 0 || s.suspects > 0 || best != nil && len(best.out) <= len(s.out) {
			continue
		}
		best = s
	}
	return best
}

// Tick does what is due. It judges nothing by time that passed while the daemon stood still, if Late came before.
func (p *Pool) Tick(now time.Duration) {
	for _, s := range slices.Clone(p.sessions) {
		s.tick(now)
	}
	p.pump(now)
}

// Late adds the time for which the daemon stood still to all deadlines.
func (p *Pool) Late(by time.Duration) {
	for _, s := range p.sessions {
		s.life += by
		for i := range s.marks {
			s.marks[i].at += by
		}
		for _, r := range s.out {
			r.sentAt += by
		}
	}
}
