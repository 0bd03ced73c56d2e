package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// checkTarget refuses a target that has records of its own, before anything of the source is changed.
func (m *Mirror) checkTarget(ctx context.Context, doc *topic.Document) error {
	if err := m.checkDefined(ctx); err != nil {
		return err
	}
	for i := doc.Left(); i < len(doc.Storage); i++ {
		from, to, err := m.openPair(ctx, doc, i)
		if err != nil {
			return err
		}
		for p := 0; p < to.Config().Partitions && err == nil; p++ {
			var s *stored
			if s, err = m.readState(ctx, m.stateKey(i, p)); err != nil {
				break
			}
			err = m.checkEmpty(ctx, to, p, &s.state)
		}
		if err = errors.Join(err, from.Close(), to.Close()); err != nil {
			return err
		}
	}
	return nil
}

// checkEmpty refuses a partition of the target that has records which no mirror has brought: they
// would be mixed with those of the source. Offsets tell nothing: the mark of a seal has one too.
func (m *Mirror) checkEmpty(ctx context.Context, target *commitlog.Topic, partition int, s *state) error {
	if s.Sequence > 0 || len(s.Window) > 0 {
		return nil
	}
	b, err := target.Bounds(ctx, partition)
	for at := b.First; err == nil && at < b.Next; {
		var recs []commitlog.Record
		var next int64
		recs, next, err = target.Read(ctx, partition, at, nil, nil)
		switch {
		case err != nil:
		case len(recs) > 0:
			err = fmt.Errorf("topic %q has records at the target already, in partition %d from offset %d on, which were not mirrored; delete the topic there first: %w",
				m.c.Topic, partition, recs[0].Offset, fault.Exists)
		case next == at: // its end is known and not readable yet
			err = fmt.Errorf("partition %d of topic %q at the target can't be read from offset %d to its end at %d: %w", partition, m.c.Topic, at, b.Next, fault.Unavailable)
		}
		at = next
	}
	return err
}
