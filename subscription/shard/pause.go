package shard

import "github.com/ringfence/ringfence/subscription/core"

// Engine delivers the main records of a shard.
type Engine interface {
	Pause()
	Resume()
	TryOne() bool
	Limit(atOnce int) // 0: as it is set up
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
	s.gate.Lock()
	defer s.gate.Unlock()
	s.engine = e
	e.Limit(int(s.slots.most.Load()))
	if s.paused != 0 {
		e.Pause()
	}
}

// SetPaused ends or begins the delivery of records, also before Run and before there is an engine. A
// delivery under way goes on to its end; no other attempt begins once SetPaused has returned.
func (s *Shard) SetPaused(paused bool) { s.setPaused(ordered, paused) }

func (s *Shard) setPaused(why pauses, paused bool) {
	s.gate.Lock()
	defer s.gate.Unlock()
	was := s.paused
	if s.paused &^= why; paused {
		s.paused |= why
	}
	if (was != 0) == (s.paused != 0) {
		return
	}
	s.do(func(st *core.State) { st.SetPaused(s.paused != 0) })
	switch {
	case s.engine == nil:
	case s.paused != 0:
		s.engine.Pause()
	default:
		s.engine.Resume()
	}
}

// tryOne delivers one record although the circuit holds all back, in turns a parked one and one of the
// main topic. False: there is none, or nothing may be delivered at all.
func (s *Shard) tryOne() bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.paused != heldBack || s.engine == nil {
		return false
	}
	if s.turn = !s.turn; s.turn {
		return s.tryParked() || s.engine.TryOne()
	}
	return s.engine.TryOne() || s.tryParked()
}

// tryParked is tryOne for parked records. It tries none that would wait for a slot: others could go meanwhile.
func (s *Shard) tryParked() bool {
	if s.slots.taken() || s.cfg.Endpoint.full() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm != nil {
		return false
	}
	s.st.SetPaused(false)
	s.st.Due(s.nowLocked().UnixMilli(), 1)
	s.st.SetPaused(true)
	found := s.st.Effects()
	for _, e := range found {
		s.pumped = append(s.pumped, e.(core.Deliver)) // Due wants nothing else
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return len(found) > 0
}
