package shard

import (
	"context"
	"sync/atomic"

	"github.com/ringfence/ringfence/dispatch"
)

// underWay is what an attempt holds of the bounds of its subscription and its endpoint, and gives back.
type underWay struct {
	own, there *slots
	running    *atomic.Int64 // counts it; nil: it is not counted
}

// underWay counts an attempt that has its slots.
func (s *Shard) underWay(own, there *slots) underWay {
	u := underWay{own: own, there: there}
	if s.limited() {
		u.running = &s.stats.running
		u.running.Add(1)
	}
	return u
}

func (u underWay) give() {
	if u.running != nil {
		u.running.Add(-1)
	}
	u.there.give()
	u.own.give()
}

// bounded delivers a record within the limits of the subscription. A record that has to wait for them is not
// with a handler, and loses no attempt. Without limits it allocates nothing.
func (s *Shard) bounded(ctx context.Context, r *dispatch.Record, parked bool) error {
	own, waited, err := s.slots.take(ctx)
	if err != nil {
		s.unspent(parked)
		return err
	}
	there, waitedThere, err := s.cfg.Endpoint.take(ctx)
	if err != nil {
		own.give()
		s.unspent(parked)
		return err
	}
	u, late := s.underWay(own, there), false
	defer func() {
		if !late {
			u.give()
		}
	}()
	if (waited || waitedThere) && s.idle() {
		s.unspent(parked)
		return errNoSlot
	}
	if !s.mayBegin(parked) {
		return errNoToken
	}
	if u.running != nil {
		s.stats.begun.Add(1)
	}
	err = s.deliver(ctx, r, parked)
	if late = err == nil && r.Late(); late {
		r.Then(func(err error) error {
			u.give()
			return err
		})
	}
	return err
}

// idle reports whether nothing may begin.
func (s *Shard) idle() bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.paused != 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calm != nil
}

// tryPaid delivers one parked record that has its token, although the rate holds all back.
func (s *Shard) tryPaid(why pauses) bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.paused != why || !s.tryParked() {
		return false
	}
	s.paidFor(why).Add(1)
	return true
}

// paidFor counts the tokens of a rate that parked records have.
func (s *Shard) paidFor(why pauses) *atomic.Int64 {
	if why == crowded {
		return &s.paidThere
	}
	return &s.paid
}

// mayBegin reports whether the rates of the subscription and of its endpoint allow an attempt.
func (s *Shard) mayBegin(parked bool) bool {
	own := s.cfg.Limits.ofRate()
	if !s.allows(own, parked) {
		s.unspent(parked)
		return false
	}
	if there := s.cfg.Endpoint.ofRate(); !s.allows(there, parked) {
		own.refund()
		return false
	}
	return true
}

func (s *Shard) allows(t *rate, parked bool) bool {
	return t == nil || parked && spend(s.paidFor(t.why)) || t.take()
}

// spend spends a token of tryPaid, if there is one.
func spend(paid *atomic.Int64) bool {
	for n := paid.Load(); n > 0; n = paid.Load() {
		if paid.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// unspent takes back the tokens of a parked record that is not attempted after all. They may be those of another
// record, which then asks as any does. Kept, they would come on top of the rate one day.
func (s *Shard) unspent(parked bool) {
	if own := s.cfg.Limits.ofRate(); parked && own != nil && spend(&s.paid) {
		own.refund()
	}
	if there := s.cfg.Endpoint.ofRate(); parked && there != nil && spend(&s.paidThere) {
		there.refund()
	}
}
