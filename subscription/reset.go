package subscription

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// A reset is a turn to a set that does not begin where the one before has ended, perhaps in another storage
// topic: then the ones after that follow as they do when a topic has grown. What is parked from there on comes
// again from the topic, and what is parked below goes along.

// AsItWas is in the place of an offset where a set begins: there the set before has ended.
const AsItWas = -1

// PlanReset returns a definition whose next turn may be a reset. ErrConflict while a turn is under way.
func (c *Catalog) PlanReset(ctx context.Context, name string) (*Document, error) {
	d, err := c.Get(ctx, name)
	if err == nil {
		_, err = c.mayTurn(ctx, d)
	}
	return d, err
}

// Reset writes down that a set of so many shards begins at these offsets of a storage topic, one for each
// partition, in the place of the one that delivers by a definition; Advance takes the next step.
// fault.Conflict when that has turned meanwhile.
func (c *Catalog) Reset(ctx context.Context, d *Document, storage, shards int, starts []int64, shed bool) (*Document, error) {
	next := d.nextSet(shards, storage)
	next.Starts, next.Shed = starts, shed
	if !soundStarts(&next) {
		return nil, fmt.Errorf("subscription %q can't begin at the offsets %v: %w", d.Name, starts, fault.Invalid)
	}
	return c.change(ctx, d.Name, func(now *Document) (bool, error) {
		if _, err := c.mayTurn(ctx, now); err != nil {
			return false, err
		}
		if now.Set().ID != d.Set().ID {
			return false, fmt.Errorf("subscription %q: its shards have turned since this was planned; repeat it: %w", d.Name, fault.Conflict)
		}
		now.atLeast(next.format())
		now.Sets = append(now.Sets, next)
		return true, nil
	})
}

// soundStarts says whether a reset can have made those of a set.
func soundStarts(s *Set) bool {
	if s.Starts == nil {
		return !s.Shed
	}
	return len(s.Starts) > 0 && len(s.Starts) <= commitlog.MaxPartitions && !slices.ContainsFunc(s.Starts, func(at int64) bool { return at < AsItWas })
}

// format is what whoever reads it has to know.
func (s *Set) format() int {
	if s.Storage > 0 {
		return grownFormat
	}
	if s.Starts != nil {
		return resetFormat
	}
	return turnedFormat
}

// Start is the offset at which a reset has the set begin in a partition; false: it begins where the one
// before has ended.
func (s *Set) Start(partition int) (int64, bool) {
	if partition >= len(s.Starts) || s.Starts[partition] == AsItWas {
		return 0, false
	}
	return s.Starts[partition], true
}

// anew says of positions at which a shard begins which of them a reset gave.
func (s *Set) anew(next []core.Next) []core.Next {
	for i := range next {
		if _, reset := s.Start(next[i].Partition); reset {
			next[i].Anew, next[i].Shed = true, s.Shed
		}
	}
	return next
}

// Items are all records that are parked, or dead letters.
func (j *Journals) Items(ctx context.Context) (all []core.Item, _ error) {
	for shard := range j.Definition.Set().Shards {
		st, err := untrimmed(func() (*core.State, error) { return j.state(ctx, shard) })
		if err != nil {
			return nil, err
		}
		all = append(all, st.Items()...)
	}
	return all, nil
}
