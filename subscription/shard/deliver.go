package shard

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// deliver calls the handler, and tells the circuit the outcome. It waits for the answer to a parked record:
// its goroutine has nothing else to do.
func (s *Shard) deliver(ctx context.Context, r *dispatch.Record, parked bool) error {
	b := s.cfg.Limits.ofCircuit()
	if b == nil {
		return s.ask(ctx, r, parked)
	}
	began, returned := b.begin(), false
	defer func() {
		if !returned { // it panicked: that is no outage
			b.ended(began, s.line(r), false, nil)
		}
	}()
	err := s.ask(ctx, r, parked)
	returned = true
	if err == nil && r.Late() {
		r.Then(func(err error) error { return s.judged(ctx, began, r, err) })
		return nil
	}
	return s.judged(ctx, began, r, err)
}

// ask calls the handler.
func (s *Shard) ask(ctx context.Context, r *dispatch.Record, parked bool) error {
	if parked {
		r.Within(ctx)
	}
	err := s.cfg.Handler(ctx, r)
	if !parked {
		return err
	}
	if most := s.cfg.AnswerTimeout; most > 0 && err == nil && r.Late() {
		late := time.AfterFunc(most, func() {
			s.end(fmt.Errorf("the handler of a parked record (storage topic %d, partition %d, offset %d) has not answered within %s; it is delivered again: %w",
				r.Storage, r.Partition, r.Offset, most, fault.Unavailable))
		})
		defer late.Stop()
	}
	return r.Wait(ctx, err, answerGrace)
}

// answerGrace is how long a cancelled attempt at a parked record waits for its answer.
const answerGrace = 5 * time.Second

// judged tells the circuit the outcome of an attempt that began at.
func (s *Shard) judged(ctx context.Context, began int64, r *dispatch.Record, err error) error {
	b := s.cfg.Limits.ofCircuit()
	if ctx.Err() != nil && err != nil {
		b.forget(began) // its outcome is unknown
		return err
	}
	var line uint64
	if err != nil || !b.calm.Load() {
		line = s.line(r)
	}
	v := b.ended(began, line, r.Attempt == 1, err)
	if t := s.cfg.Limits.ofRate(); t != nil {
		if v.uncounted && b.open() {
			t.outage()
		} else {
			t.answered(err != nil && IsOutage(err))
		}
	}
	if !v.uncounted {
		return err
	}
	out := spared{error: err}
	if v.tries > 0 {
		out.pause = s.cfg.Retry.Next(r.Attempt-1+v.tries, 0, err).Pause
	}
	return out
}

// line identifies what a record is delivered in order with.
func (s *Shard) line(r *dispatch.Record) uint64 { return s.lineOf(s.key(r.Key), originOf(r)) }

func (s *Shard) lineOf(key []byte, o core.Origin) uint64 {
	b := s.cfg.Limits.ofCircuit()
	switch {
	case b == nil:
		return 0
	case key != nil:
		return maphash.Bytes(b.seed, key)
	}
	return maphash.Comparable(b.seed, o)
}
