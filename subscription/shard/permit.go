package shard

import (
	"context"
	"sync/atomic"
)

// A permit is what one attempt has of the limits of its subscription and of its endpoint: a slot and a token of each,
// and a place in a period of the circuit. acquire alone takes them, in one order; release gives back what is left,
// once, however often it is called. A parked record may bring tokens that a rate has given it (rate.favour).
type permit struct {
	slots   [2]*slots // of the subscription and of the endpoint; nil: unbounded
	tokens  [2]*rate  // the same, until the attempt begins
	circuit *circuit  // until it knows the outcome
	period  int64     // of it, in which the attempt began
	running *atomic.Int64
}

// release gives back the slots, the tokens of an attempt that did not begin, and the turn of one with an unknown
// outcome.
func (p *permit) release() {
	if p.running != nil {
		p.running.Add(-1)
	}
	if p.circuit != nil {
		p.circuit.forget(p.period)
	}
	for i := range p.slots {
		p.slots[i].release()
		p.tokens[i].refund()
	}
	*p = permit{}
}

// acquire completes the permit of an attempt, or returns why it may not begin, with all given back: then it was none.
// A record that has to wait for a limit is not with a handler. Without limits it allocates nothing.
func (s *Shard) acquire(ctx context.Context, p *permit) error {
	err := s.takeSlots(ctx, p)
	if err == nil && !s.takeTokens(p) {
		err = errNoToken
	}
	if err == nil {
		err = s.begin(p)
	}
	if err != nil {
		p.release()
	}
	return err
}

// takeSlots takes the slots. One that had to wait for them looks whether anything may begin still.
func (s *Shard) takeSlots(ctx context.Context, p *permit) error {
	waited := false
	for i, l := range [...]*slots{&s.slots, s.cfg.Endpoint.ofSlots()} {
		taken, late, err := l.take(ctx)
		if err != nil {
			return err
		}
		p.slots[i] = taken
		waited = waited || late
	}
	if waited && s.idle() {
		return errNoSlot
	}
	return nil
}

// takeTokens takes the tokens that the permit lacks.
func (s *Shard) takeTokens(p *permit) bool {
	for i, t := range [...]*rate{s.cfg.Own.ofRate(), s.cfg.Endpoint.ofRate()} {
		if t == nil || p.tokens[i] != nil {
			continue
		}
		if !t.take() {
			return false
		}
		p.tokens[i] = t
	}
	return true
}

// begin asks the circuit last, and uses the tokens up.
func (s *Shard) begin(p *permit) error {
	if b := s.cfg.Own.ofCircuit(); b != nil {
		period, ok := b.begin()
		if !ok {
			return errOpen
		}
		p.circuit, p.period = b, period
	}
	p.tokens = [2]*rate{}
	if s.limited() {
		s.stats.begun.Add(1)
		s.stats.running.Add(1)
		p.running = &s.stats.running
	}
	return nil
}

// idle reports whether nothing may begin.
func (s *Shard) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused != 0 || s.drained != nil
}
