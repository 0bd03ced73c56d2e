package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// What the target has decides, and no note of what was sent: the registry with the notes may go back, and a log
// acknowledges an append that it takes for an earlier one. So a record counts as copied when it was read from
// the target, in its place.

// base is the offset of the source at which the copy begins. Its card keeps that for ever.
func (c *copier) base(first int64) (int64, error) {
	config := c.to.Config()
	card, err := topic.DecodeCard(config.Name, config.Card)
	if err == nil && card != nil && c.partition < len(card.From) {
		return card.From[c.partition], nil
	}
	return first, err
}

// differError says that the copy of a storage topic is not one: the target has something else in a place, or the
// source has no more what would tell.
type differError struct {
	storage, partition int
	source, target     int64
	why                string
	mixed              bool // the newest record of the target is one of the source, so that the source has all
}

func (e *differError) Error() string {
	return fmt.Sprintf("the copy of storage topic %d, partition %d, is compared up to offset %d of the source and %d of the target, and then %s", e.storage, e.partition, e.source, e.target, e.why)
}

func (e *differError) Is(target error) bool { return target == fault.Conflict }

func (c *copier) differ(why string) error {
	return &differError{storage: c.storage, partition: c.partition, source: c.s.From, target: c.s.To, why: why}
}

// judge looks whether the source has the newest record of a copy that differs. A source that lost records, or has
// others in their place, has not, and what the target has is all that is left of them.
func (c *copier) judge(ctx context.Context, err error) error {
	var differs *differError
	if !errors.As(err, &differs) {
		return err
	}
	newest, err := c.newest(ctx)
	if err != nil {
		return err
	}
	var b commitlog.Bounds
	if err := c.patiently(ctx, "source", func() (err error) { b, err = c.from.Bounds(ctx, c.partition); return err }); err != nil {
		return err
	}
	differs.mixed = newest == nil
	for at := b.First; at < b.Next && !differs.mixed; {
		recs, next, err := c.readSource(ctx, at)
		if err != nil || next == at {
			return errors.Join(err, differs)
		}
		differs.mixed = slices.ContainsFunc(recs, func(r commitlog.Record) bool { return same(&r, newest) })
		at = next
	}
	return differs
}

// newest is the last record of the target; nil: it has none.
func (c *copier) newest(ctx context.Context) (newest *commitlog.Record, err error) {
	var b commitlog.Bounds
	if err := c.patiently(ctx, "target", func() (err error) { b, err = c.to.Bounds(ctx, c.partition); return err }); err != nil {
		return nil, err
	}
	for at := max(b.First, min(c.s.To, b.Next-1)); at < b.Next; {
		recs, next, err := c.readTarget(ctx, at)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			newest = &recs[len(recs)-1]
		}
		at = next
	}
	return newest, nil
}

// readBack moves the pair over all that the target has, which has to be what the source has there. sent is what
// the source has from the pair on, as far as it is known, up to the offset next.
func (c *copier) readBack(ctx context.Context, sent []commitlog.Record, next int64) error {
	if len(sent) == 0 {
		next = c.s.From
	}
	var b commitlog.Bounds
	err := c.patiently(ctx, "target", func() (err error) { b, err = c.to.Bounds(ctx, c.partition); return err })
	if err != nil {
		return err
	}
	if c.s.Records == 0 {
		c.s.To = max(c.s.To, b.First)
	}
	if c.s.To < b.First || c.s.To > b.Next {
		return c.differ(fmt.Sprintf("the target has offsets %d to %d only", b.First, b.Next))
	}
	for c.s.To < b.Next {
		recs, after, err := c.readTarget(ctx, c.s.To)
		if err != nil {
			return err
		}
		for i := range recs {
			if len(sent) == 0 {
				if sent, next, err = c.sourceOf(ctx, next); err != nil {
					return err
				}
			}
			if !same(&sent[0], &recs[i]) {
				return c.differ("each has another record")
			}
			c.s.matched(sent[0].Offset, recs[i].Offset)
			c.s.Last = protocol.Stamp{sent[0].Offset, sent[0].Timestamp}
			sent = sent[1:]
		}
		c.s.To = after
	}
	return nil
}

// readTarget reads the target below its end.
func (c *copier) readTarget(ctx context.Context, at int64) (recs []commitlog.Record, next int64, err error) {
	err = c.patiently(ctx, "target", func() (err error) {
		recs, next, err = c.to.Read(ctx, c.partition, at, nil, &commitlog.ReadOptions{MaxBytes: c.m.c.BatchBytes})
		if err == nil && next == at {
			if err = c.to.Wait(ctx, c.partition, next); err == nil {
				err = fmt.Errorf("partition %d can't be read from offset %d on: %w", c.partition, next, fault.Unavailable)
			}
		}
		return err
	})
	return recs, next, err
}

// sourceOf reads the source on for a record that the target has.
func (c *copier) sourceOf(ctx context.Context, at int64) (recs []commitlog.Record, next int64, err error) {
	for next = at; len(recs) == 0; at = next {
		recs, next, err = c.readSource(ctx, at)
		if errors.Is(err, fault.OutOfRange) {
			return nil, 0, c.differ(fmt.Sprintf("the source has no offset %d", at))
		}
		if err != nil {
			return nil, 0, err
		}
		if len(recs) == 0 && next == at {
			return nil, 0, c.differ(fmt.Sprintf("the target has records and the source ends at %d", at))
		}
	}
	return recs, next, nil
}

// same compares a record of the source with its copy, as far as every log keeps it.
func same(a, b *commitlog.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Timestamp == b.Timestamp || a.Timestamp <= 0) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y commitlog.Header) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) })
}

// checkSame compares what is left of both sides of a copy to their ends.
func (m *Mirror) checkSame(ctx context.Context, doc *topic.Document) error {
	for i := doc.Left(); i < len(doc.Storage); i++ {
		from, to, err := m.openPair(ctx, doc, i)
		if m.retired(ctx, i, err) {
			continue
		}
		for p := 0; err == nil && p < from.Config().Partitions; p++ {
			err = m.checkPartition(ctx, &copier{m: m, from: from, to: to, storage: i, partition: p})
		}
		if from != nil {
			err = errors.Join(err, from.Close(), to.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Mirror) checkPartition(ctx context.Context, c *copier) error {
	var err error
	if c.s, err = m.readState(ctx, m.stateKey(c.storage, c.partition)); err != nil {
		return err
	}
	if err := c.readBack(ctx, nil, 0); err != nil {
		return err
	}
	b, err := c.from.Bounds(ctx, c.partition)
	if err != nil {
		return err
	}
	for c.s.From < b.Next {
		recs, next, err := c.readSource(ctx, c.s.From)
		switch {
		case err != nil:
			return err
		case len(recs) > 0 || next == c.s.From:
			return c.differ(fmt.Sprintf("the target ends, and the source at offset %d", b.Next))
		}
		c.s.From = next
	}
	return nil
}
