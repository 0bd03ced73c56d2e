package shard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription/core"
)

// Handle is the engine's handler: the way of a main record, as doc.go draws it. A record that the filter is false of
// is finished, whatever is parked: nothing waits for it.
func (s *Shard) Handle(ctx context.Context, r *dispatch.Record) error {
	defer s.cfg.Own.ofCircuit().turnOver()
	wanted, unfit := s.wanted(r)
	if unfit == nil && !wanted {
		return nil
	}
	var due time.Time
	if unfit == nil {
		due, unfit = notBefore(&r.Record, time.Now)
	}
	delayed := !due.IsZero()
	if !delayed && s.empty.Load() {
		return s.direct(ctx, r, unfit)
	}
	switch s.admit(r, delayed) {
	case core.Past:
		return nil
	case core.Divert:
		held := core.Held{Attempts: r.Attempt - 1}
		if delayed {
			held.Due = due.UnixMilli()
		}
		return s.park(ctx, r, s.now(), held)
	}
	origin, late := originOf(r), false
	defer func() {
		if !late {
			s.leave(origin)
		}
	}()
	err := s.direct(ctx, r, unfit)
	if late = err == nil && r.Late(); late {
		r.Then(func(err error) error {
			s.leave(origin)
			return err
		})
	}
	return err
}

// direct delivers a record that waits for nothing of its key; unfit is why it can't be judged, or nil.
func (s *Shard) direct(ctx context.Context, r *dispatch.Record, unfit error) error {
	if unfit != nil {
		return unfit
	}
	return s.deliver(ctx, r, permit{}, false)
}
