package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
)

// A broker forgets a producer a day after its last append. In a partition that takes no more records
// what is there is there for ever, so it can be read instead: a caller that hears that an append is absent
// stores it elsewhere.

// closed says whether the partition takes no more appends. For a first one no question is needed: it is
// sent, and refused if so.
func (p *partition) closed(ctx context.Context) (bool, error) {
	if p.produce.refused || p.s.sealed.Load() {
		return true, nil
	}
	if head := p.produce.peek(); head == nil || head.req.Producer.Sequence == 0 {
		return false, nil
	}
	limit, err := p.s.readLimit(ctx)
	return err == nil && limit == 0, err
}

// recall takes what a sealed partition has of a producer from its records. They are all read once.
func (p *partition) recall(ctx context.Context, id *identity) error {
	q := &p.produce
	if q.past == nil {
		if err := p.readPast(ctx); err != nil {
			return err
		}
	}
	t := q.past[id.kafkaID]
	switch {
	case t != nil:
		id.epoch, id.kafkaSeq = int32(t.epoch), follow(t.last, 1)
		id.next, id.recent = t.next, slices.Clone(t.places)
	case q.trimmed:
		return fmt.Errorf("it is sealed, and what retention has dropped may be of producer %x: %w", id.id, fault.Forgotten)
	}
	id.known = true
	return nil
}

func (p *partition) readPast(ctx context.Context) error {
	b, err := p.caughtUp(ctx)
	if err != nil {
		return err
	}
	past := map[int64]*trace{}
	end, err := p.scan(ctx, b.First, b.Next, func(s *span) error {
		if !ours(s.h.ProducerID) || s.h.Attributes&attrControl != 0 {
			return nil
		}
		if past[s.h.ProducerID] == nil {
			past[s.h.ProducerID] = new(trace)
		}
		return past[s.h.ProducerID].add(p, s)
	})
	if err != nil {
		return err
	}
	after, err := p.bounds(ctx)
	if err != nil || end < b.Next {
		return fmt.Errorf("the sealed partition can't be read to its end: %w", errors.Join(fault.Unavailable, err))
	}
	p.produce.past, p.produce.trimmed = past, after.First > 0
	return nil
}
