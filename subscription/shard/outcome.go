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
	err := s.park(ctx, r, now, held)
	if err == nil {
		f := dispatch.FailureOf("", r, h.Err)
		f.Attempt, f.Outcome = max(1, h.Attempts), s.outcome(held.Dead)
		s.tell(f)
	}
	return err
}

// outcome is what becomes of a record that is parked or given up.
func (s *Shard) outcome(givenUp bool) dispatch.Outcome {
	switch {
	case !givenUp:
		return dispatch.Parked
	case s.terms.Load().DeadLetters == core.Drop:
		return dispatch.Dropped
	}
	return dispatch.DeadLetter
}

// tell tells a failure.
func (s *Shard) tell(f dispatch.Failure) {
	if s.cfg.Failed != nil {
		s.cfg.Failed(f)
	}
}

// tellFailed tells a failed attempt after which the record is tried again. The circuit itself tells what it holds back,
// and Held and attempted tell what is given up.
func (s *Shard) tellFailed(ctx context.Context, r *dispatch.Record, err error, counts bool) {
	if err == nil || ctx.Err() != nil || s.cfg.Failed == nil {
		return
	}
	if _, none := dispatch.Uncounted(err); none {
		return
	}
	if b := s.cfg.Own.ofCircuit(); b != nil && b.open() {
		return
	}
	retry := s.terms.Load().Retry
	if counts && retry.Next(r.Attempt, 0, err).Step == dispatch.GiveUp && Storable(&r.Record) == nil {
		return
	}
	s.tell(dispatch.FailureOf("", r, err))
}

// tellFrom is the least pause after an attempt that does not count for which the journal tells why the record waits.
const tellFrom = 5 * time.Second

// attempted gives the core the outcome of an attempt at a parked record. One that was cancelled is unknown: the next
// owner delivers it again.
func (s *Shard) attempted(ctx context.Context, d core.Deliver, err error) {
	if ctx.Err() != nil && err != nil {
		return
	}
	now := s.now()
	if pause, none := dispatch.Uncounted(err); none {
		due := now.Add(pause).UnixMilli()
		s.do(func(st *core.State) {
			if pause < tellFrom || errors.Is(err, errEarly) {
				st.Spared(d.ID, due)
			} else {
				st.Attempted(d.ID, core.Outcome{Spared: true, Answer: err.Error(), Now: now.UnixMilli(), Due: due})
			}
		})
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
	if o.GiveUp != 0 {
		s.tell(dispatch.Failure{
			Outcome: s.outcome(true), Storage: int(d.ID.Storage), Partition: int(d.ID.Partition), Offset: d.ID.Offset, Key: d.Key, Attempt: d.Attempt, Err: err,
		})
	}
}
