package shard

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription/core"
)

// givenUp maps the reasons for giving a record up to those of the journal.
var givenUp = map[dispatch.Why]core.Reason{dispatch.Refused: core.Permanent, dispatch.SpentAttempts: core.Attempts}

// Held takes over a failing main record: it is the engine's OnHeld, after the engine has asked the retry policy. A
// record that can't be parked is delivered until it succeeds, or its time comes, whatever was to become of it: the
// engine asks nothing more about it.
func (s *Shard) Held(ctx context.Context, r *dispatch.Record, h dispatch.Held) error {
	defer s.cfg.Own.ofCircuit().turnOver()
	if Storable(&r.Record) != nil && !time.Now().Before(h.Next) {
		return s.Handle(ctx, r)
	}
	now := s.now()
	held := core.Held{Attempts: h.Attempts, Since: h.Since.UnixMilli(), Due: now.Add(time.Until(h.Next)).UnixMilli(), Answer: h.Err.Error()}
	held.Reason = givenUp[h.Why]
	if held.Dead = held.Reason != 0; held.Dead {
		s.cfg.Own.ofCircuit().absolve(s.line(r))
	}
	return s.park(ctx, r, now, held)
}

// attempted gives the core the outcome of an attempt at a parked record. One that was cancelled is unknown: the next
// owner delivers it again.
func (s *Shard) attempted(ctx context.Context, d core.Deliver, err error) {
	if ctx.Err() != nil && err != nil {
		return
	}
	now := s.now()
	if e := (spared{}); errors.As(err, &e) {
		s.do(func(st *core.State) { st.Spared(d.ID, now.Add(e.pause).UnixMilli()) })
		return
	}
	o := core.Outcome{Done: err == nil, Now: now.UnixMilli()}
	if err != nil {
		next := s.terms.Load().Retry.Next(d.Attempt, now.Sub(time.UnixMilli(d.Since)), err)
		o.Answer, o.Due, o.GiveUp = err.Error(), now.Add(next.Pause).UnixMilli(), givenUp[next.Why]
	}
	if o.GiveUp != 0 {
		s.cfg.Own.ofCircuit().absolve(s.lineOf(d.Key, d.ID.Origin))
	}
	s.do(func(st *core.State) { st.Attempted(d.ID, o) })
}
