package shard

import (
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// The checkpoint of a unit carries stats of its deliveries, so that other processes see what only its owner knows:
// whether the circuit is open, and what is used of the limits. They go with progress that is stored anyway, at
// most once in statsEvery, and at once for a circuit. Nothing decides anything by them.

// statsEvery is the shortest time between two measurements, and the time that each covers.
const statsEvery = time.Second

// stats is what a shard has reported.
type stats struct {
	begun   atomic.Int64 // attempts, while there is any limit
	running atomic.Int64 // of those, the ones under way

	at   time.Time // of the last look
	was  int64     // begun at that look
	last *protocol.Deliveries
}

// limited reports whether anything bounds the attempts of the shard: then they are counted.
func (s *Shard) limited() bool {
	t := s.cfg.Own.ofRate()
	return s.slots.most.Load() > 0 || s.cfg.Endpoint != nil || t != nil && t.bounds.Load()
}

// Deliveries returns the shard's stats; the same pointer as long as nothing has changed.
func (s *Shard) Deliveries() *protocol.Deliveries {
	now := time.Now()
	held, eased, there := s.cfg.Own.ofCircuit().heldBack(now), s.cfg.Own.ofRate().backedOff(), s.cfg.Endpoint.here()
	if held == nil && s.cfg.Endpoint != nil {
		held = s.cfg.Endpoint.refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.stats
	if t.at.IsZero() {
		t.at = now
	}
	passed := now.Sub(t.at)
	if passed < statsEvery && (held != nil) == (t.last != nil && t.last.HeldBack != nil) {
		return t.last
	}
	told := protocol.Deliveries{At: now.UnixMilli(), HeldBack: held, Eased: round(eased), Endpoint: there}
	if t.last != nil {
		told.Rate = t.last.Rate
	}
	if passed >= statsEvery {
		begun := t.begun.Load()
		told.Rate = round(float64(begun-t.was) / passed.Seconds())
		t.at, t.was = now, begun
	}
	told.Running = int(max(0, t.running.Load()))
	if told.Rate == 0 && t.last.Same(&told) {
		return t.last
	}
	if told.Same(nil) {
		t.last = nil
	} else {
		t.last = &told
	}
	return t.last
}

// news makes the owner look soon for new stats.
func (s *Shard) news() {
	if s.cfg.Advanced != nil {
		s.cfg.Advanced()
	}
}

// round leaves two decimals.
func round(n float64) float64 { return math.Round(n*100) / 100 }

// heldBack says since when the circuit is open, and why; nil: it is closed, or there is none.
func (b *circuit) heldBack(now time.Time) *protocol.HeldBack {
	if b == nil || !b.open() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() {
		return nil
	}
	h := &protocol.HeldBack{Since: b.since.UnixMilli(), Why: b.why}
	if b.asked.Sub(now) > probeEvery {
		h.Next = b.asked.UnixMilli()
	}
	return h
}

// shortly shortens an error for a checkpoint, where it is a string of JSON.
func shortly(err error) string {
	said := strings.ToValidUTF8(err.Error(), "?")
	if len(said) <= protocol.MaxWhyBytes {
		return said
	}
	const cut = "…"
	return strings.ToValidUTF8(said[:protocol.MaxWhyBytes-len(cut)], "") + cut
}

// backedOff returns the bound that backoff has set; 0: none.
func (t *rate) backedOff() float64 {
	if t == nil || !t.watching.Load() {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.backoff.bound
}
