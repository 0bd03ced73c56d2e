package shard

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription/core"
)

// hurry carries out orders to retry, as far as they are not about what is parked, which the core has done: the pauses of
// records that the engine holds end, and so does the wait of the circuit for its next look, whatever an answer asked for.
func (s *Shard) hurry() {
	s.mu.Lock()
	all, engine := s.hurries, s.engine
	s.hurries = nil
	if engine != nil {
		for _, h := range all {
			engine.Hurry(func(r *dispatch.Record) bool {
				if len(h.IDs) > 0 {
					o := originOf(r)
					return slices.ContainsFunc(h.IDs, func(id core.ID) bool { return id.Origin == o })
				}
				return h.Key == nil || bytes.Equal(h.Key, s.key(r.Key))
			})
		}
	}
	s.mu.Unlock()
	if len(all) > 0 {
		s.cfg.Own.ofCircuit().hurry()
	}
}

// hurry makes an open circuit look at once.
func (b *circuit) hurry() {
	if b == nil || !b.open() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() || b.over {
		return
	}
	b.asked, b.pause = time.Time{}, firstProbe
	if b.timer.Stop() { // else it is about to look anyway
		b.arm(0)
	}
}
