package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// Handle is the engine's handler: it delivers a record, or parks it behind those of its key. A record
// that the filter is false of is finished, whatever is parked: nothing waits for it.
func (s *Shard) Handle(ctx context.Context, r *dispatch.Record) error {
	wanted, err := s.judge(r)
	if err == nil && !wanted {
		return nil
	}
	if len(r.Headers) > 0 && err == nil {
		var at time.Time
		if at, err = notBefore(&r.Record, time.Now()); !at.IsZero() {
			return s.delay(ctx, r, at)
		}
	}
	if s.quiet.Load() {
		return s.direct(ctx, r, err)
	}
	key, origin := s.key(r.Key), originOf(r)
	var v core.Verdict
	s.do(func(st *core.State) { v = st.Admit(key, origin) })
	switch v {
	case core.Past:
		return nil
	case core.Divert:
		if b := s.cfg.Limits.ofCircuit(); b != nil && b.open() {
			return errOpen
		}
		return s.park(ctx, r, s.now(), core.Held{Attempts: r.Attempt - 1})
	}
	late := false
	defer func() {
		if !late {
			s.leave(origin)
		}
	}()
	err = s.direct(ctx, r, err)
	if late = err == nil && r.Late(); late {
		r.Then(func(err error) error {
			s.leave(origin)
			return err
		})
	}
	return err
}

// leave notes the end of a record's direct delivery.
func (s *Shard) leave(o core.Origin) { s.do(func(st *core.State) { st.Left(o) }) }

// judge says whether the filter is true of a record. The error is that it can't be computed: whether the
// record was to be delivered is unknown, so it is given up at once, in its place in the order of its key.
func (s *Shard) judge(r *dispatch.Record) (bool, error) {
	if s.cfg.Filter == nil {
		return true, nil
	}
	wanted, err := s.cfg.Filter(r)
	if err != nil {
		return false, unfit{err}
	}
	return wanted, nil
}

// direct delivers a record that waits for nothing of its key; unfit is the error of judge, or nil.
func (s *Shard) direct(ctx context.Context, r *dispatch.Record, unfit error) error {
	if unfit != nil {
		return unfit
	}
	return s.bounded(ctx, r, false)
}

// parked delivers a parked record. A redriven or edited one is delivered because an operator decided
// so; of the others the filter was true, or could not be computed.
func (s *Shard) parked(ctx context.Context, r *dispatch.Record, round int) error {
	if err := s.timely(r, round); err != nil {
		s.unspent(true)
		return err
	}
	return s.call(ctx, r)
}

// timely returns why a parked record may not be delivered now.
func (s *Shard) timely(r *dispatch.Record, round int) error {
	if round == 0 {
		if _, err := s.judge(r); err != nil {
			return err
		}
	}
	now := s.now()
	switch at, err := notBefore(&r.Record, now); {
	case err != nil && round == 0:
		return err
	case !at.IsZero():
		return early{fmt.Errorf("its time comes in %s", at.Sub(now)), at}
	}
	return nil
}

// Held takes over a failing record: it is the engine's OnHeld. A record that can't be parked is delivered until
// it succeeds, or its time comes, whatever was to become of it: the engine asks nothing more about it.
func (s *Shard) Held(ctx context.Context, r *dispatch.Record, h dispatch.Held) error {
	if Storable(&r.Record) != nil && !time.Now().Before(h.Next) {
		return s.Handle(ctx, r)
	}
	now := s.now()
	held := core.Held{Attempts: h.Attempts, Since: h.Since.UnixMilli(), Due: now.Add(time.Until(h.Next)).UnixMilli(), Answer: h.Err.Error()}
	held.Reason = givenUp[h.Why]
	if held.Dead = held.Reason != 0; held.Dead {
		s.cfg.Limits.ofCircuit().absolve(s.line(r))
	}
	return s.park(ctx, r, now, held)
}

// park writes a record down, as of now, and waits until that is final. The same look at the clock decides when it
// is due.
func (s *Shard) park(ctx context.Context, r *dispatch.Record, now time.Time, h core.Held) error {
	if err := Storable(&r.Record); err != nil {
		s.log.Warn("a record can't be parked", "storage", r.Storage, "partition", r.Partition, "offset", r.Offset, "error", err)
		return err
	}
	h.Origin, h.Key, h.Timestamp, h.Now = originOf(r), s.key(r.Key), r.Timestamp, now.UnixMilli()
	var p *parking
	s.do(func(st *core.State) {
		if p = s.pending[h.Origin]; p == nil {
			p = &parking{rec: r.Record, done: make(chan struct{})}
			s.pending[h.Origin] = p
			st.Park(h)
		}
	})
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return fmt.Errorf("the shard has ended: %w", fault.Closed)
	}
}

// unfit is the error of a record for which the filter can't be computed.
type unfit struct{ error }

// Permanent says that another attempt would end the same way.
func (unfit) Permanent() bool { return true }

// Unwrap serves errors.Is.
func (e unfit) Unwrap() error { return e.error }
