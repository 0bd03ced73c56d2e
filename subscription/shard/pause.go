package shard

import "github.com/ringfence/ringfence/dispatch"

// Engine delivers the main records of a shard.
type Engine interface {
	Pause()
	Resume()
	TryOne() bool
	Limit(atOnce int) // 0: as it is set up
	SetRetry(r dispatch.Retry)
	Hurry(meant func(*dispatch.Record) bool)
}

// pauses are the reasons why nothing is delivered.
type pauses uint8

const (
	ordered   pauses = 1 << iota // by the definition
	heldBack                     // by the circuit
	throttled                    // until the rate allows some
	crowded                      // until that of the endpoint does
)

// Uses sets the engine of the shard, before that runs.
func (s *Shard) Uses(e Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = e
	e.Limit(int(s.slots.most.Load()))
	e.SetRetry(s.terms.Load().Retry)
	if s.paused != 0 {
		e.Pause()
	}
}

// SetPaused ends or begins the delivery of records, also before Run and before there is an engine. A
// delivery under way goes on to its end; no other attempt begins once SetPaused has returned.
func (s *Shard) SetPaused(paused bool) { s.setPaused(ordered, paused) }

func (s *Shard) setPaused(why pauses, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.paused
	if s.paused &^= why; paused {
		s.paused |= why
	}
	if (was != 0) == (s.paused != 0) {
		return
	}
	s.st.SetPaused(s.paused != 0)
	signal(s.wake)
	switch {
	case s.engine == nil:
	case s.paused != 0:
		s.engine.Pause()
	default:
		s.engine.Resume()
	}
}

// SetConcurrency bounds the attempts under way; 0: no bound. It may be called at any time, also before
// Run; what is under way goes on to its end.
func (s *Shard) SetConcurrency(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.bound(most)
	if s.engine != nil {
		s.engine.Limit(most)
	}
	signal(s.wake)
}

// tryOne delivers one record although the circuit holds all back, in turns a parked one and one of the
// main topic. False: there is none, or nothing may be delivered at all.
func (s *Shard) tryOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != heldBack || s.engine == nil {
		return false
	}
	if s.mainNext = !s.mainNext; s.mainNext {
		return s.tryParked(permit{}) || s.engine.TryOne()
	}
	return s.engine.TryOne() || s.tryParked(permit{})
}

// tryPaid delivers one parked record with a token, although its rate holds all back.
func (s *Shard) tryPaid(p permit, why pauses) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused == why && s.tryParked(p)
}

// tryParked hands one parked record out. It tries none that would wait for a slot: others could go meanwhile. The
// caller holds mu.
func (s *Shard) tryParked(p permit) bool {
	if s.drained != nil || s.slots.taken() || s.cfg.Endpoint.ofSlots().taken() {
		return false
	}
	s.st.SetPaused(false)
	s.st.Due(s.nowLocked().UnixMilli(), 1)
	s.st.SetPaused(true)
	signal(s.wake)
	return s.takeDue(p)
}
