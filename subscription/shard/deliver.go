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

// deliver makes an attempt within the limits. It waits for the answer to a parked record: its goroutine has nothing
// else to do.
func (s *Shard) deliver(ctx context.Context, r *dispatch.Record, p permit, parked bool) error {
	if err := s.acquire(ctx, &p); err != nil {
		return err
	}
	returned, late := false, false
	defer func() {
		if !returned && p.circuit != nil { // it panicked: that is no outage
			p.ended(s.line(r), false, nil)
		}
		if !late {
			p.release()
		}
	}()
	err := s.ask(ctx, r, parked)
	returned = true
	if late = err == nil && r.Late(); late {
		held := p
		r.Then(func(err error) error {
			defer held.release()
			return s.judged(ctx, &held, r, err)
		})
		return nil
	}
	return s.judged(ctx, &p, r, err)
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

// ended gives the circuit the outcome of the attempt.
func (p *permit) ended(line uint64, first bool, err error) verdict {
	b := p.circuit
	p.circuit = nil
	return b.ended(p.period, line, first, err)
}

// judged tells the limits of the subscription the outcome of an attempt. A cancelled one has none.
func (s *Shard) judged(ctx context.Context, p *permit, r *dispatch.Record, err error) error {
	b := p.circuit
	if b == nil || ctx.Err() != nil && err != nil {
		s.tellFailed(ctx, r, err, true)
		return err
	}
	var line uint64
	if err != nil || !b.healthy.Load() {
		line = s.line(r)
	}
	v := p.ended(line, r.Attempt == 1, err)
	if t := s.cfg.Own.ofRate(); t != nil {
		if v.uncounted && b.open() {
			t.outage()
		} else {
			t.answered(err != nil && IsOutage(err))
		}
	}
	s.tellFailed(ctx, r, err, !v.uncounted)
	if !v.uncounted {
		return err
	}
	out := spared{error: err}
	if v.tries > 0 {
		out.pause = s.terms.Load().Retry.Next(r.Attempt-1+v.tries, 0, err).Pause
		if dispatch.AskedPause(err) > 0 {
			out.pause = min(out.pause, longestWait) // it is the endpoint that waits, and it may be well before
		}
	}
	return out
}

// line identifies what a record is delivered in order with.
func (s *Shard) line(r *dispatch.Record) uint64 { return s.lineOf(s.key(r.Key), originOf(r)) }

func (s *Shard) lineOf(key []byte, o core.Origin) uint64 {
	b := s.cfg.Own.ofCircuit()
	switch {
	case b == nil:
		return 0
	case key != nil:
		return maphash.Bytes(b.seed, key)
	}
	return maphash.Comparable(b.seed, o)
}
