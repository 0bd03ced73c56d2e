package delivery

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// Resharding is what the change of a subscription's number of shards does.
type Resharding struct {
	Name   string `json:"name"`
	From   int    `json:"from"` // so many shards deliver now
	To     int    `json:"to"`
	Begun  bool   `json:"begun"`  // the members are at it, or do it when there are some
	Parked int    `json:"parked"` // records and dead letters that are handed over, of all that is parked now
	// Shards are the new ones. One that waits for several delivers when the last of those has ended.
	Shards []NewShard `json:"shards"`
}

// NewShard is one shard of a set to come.
type NewShard struct {
	Shard      int   `json:"shard"`
	Partitions []int `json:"partitions"` // that it reads, of the topic
	After      []int `json:"after"`      // the shards of now that have to end before it begins
}

// Reshard changes how many shards a subscription has, while it is delivered; a dry run only says what that
// would do. Members do it; without one it is done when there is one. fault.Conflict while an earlier change
// is under way; fault.Invalid for a number that is too high.
func (c *Subscriptions) Reshard(ctx context.Context, name string, shards int, dry bool) (*Resharding, error) {
	d, err := c.PlanReshard(ctx, name, shards)
	if err != nil {
		return nil, err
	}
	main, err := c.topics.Catalog().Get(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	out := &Resharding{Name: name, From: d.Set().Shards, To: shards, Shards: []NewShard{}}
	if out.From == out.To {
		return out, nil
	}
	next := d.Set()
	next.Shards = shards
	out.Shards = newShards(main, d.Set(), next)
	j, err := c.journalsOf(ctx, d)
	if err == nil {
		out.Parked, err = j.Parked(ctx)
	}
	if err != nil || dry {
		return out, err
	}
	_, err = c.Catalog.Reshard(ctx, d, shards)
	out.Begun = err == nil
	return out, err
}

// newShards are those of a set that goes on for another one.
func newShards(main *topic.Document, before, next subscription.Set) []NewShard {
	all := make([]NewShard, next.Shards)
	h := subscription.Heritage(main, before, next)
	partitions := main.Storage[next.Storage].Partitions
	for p := range partitions {
		s := &all[topic.Shard(p, partitions, next.Shards)]
		s.Partitions = append(s.Partitions, p)
	}
	for i := range all {
		all[i].Shard, all[i].After = i, h.After[i]
	}
	return all
}

// DescribeGroup describes any group with its members, its units and their lag; it needs no member to be
// alive.
func (c *Subscriptions) DescribeGroup(ctx context.Context, name string) (consumer.GroupInfo, error) {
	layout, err := c.layoutOf(ctx, name)
	if err != nil {
		return consumer.GroupInfo{}, err
	}
	info, err := layout.Describe(ctx, c.reg, name, c.topics.Current)
	if err == nil {
		info.Later, err = c.later(ctx, name, info.Topic)
		info.Lag += info.Later
	}
	return info, err
}

// later is how many records lie behind the storage topic that the group of a subscription delivers: no group
// reads those yet.
func (c *Subscriptions) later(ctx context.Context, group, topicName string) (n int64, _ error) {
	name, set, ok := subscription.OfGroup(group)
	if !ok {
		return 0, nil
	}
	d, err := c.Get(ctx, name)
	switch {
	case errors.Is(err, fault.NotFound), errors.Is(err, subscription.ErrDamaged), err == nil && d.Set().ID != set:
		return 0, nil // what is left of one, or nobody can say
	case err != nil:
		return 0, err
	}
	t, err := c.topics.Current(ctx, topicName)
	if err != nil {
		return 0, err
	}
	for storage := d.Set().Storage + 1; storage < len(t.Document().Storage); storage++ {
		log, err := t.Storage(storage)
		if err != nil {
			return 0, err
		}
		for p := range t.Document().Storage[storage].Partitions {
			b, err := log.Bounds(ctx, p)
			if err != nil {
				return 0, err
			}
			n += b.Next - b.First
		}
	}
	return n, nil
}

// layoutOf is how the units of a group read its topic.
func (c *Subscriptions) layoutOf(ctx context.Context, group string) (consumer.Layout, error) {
	name, set, ok := subscription.OfGroup(group)
	if !ok {
		return consumer.Layout{}, nil
	}
	d, err := c.Get(ctx, name)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) || errors.Is(err, fault.Corrupt) {
		return consumer.Layout{}, nil // what is left of one
	}
	if err != nil {
		return consumer.Layout{}, err
	}
	main, err := c.topics.Catalog().Get(ctx, d.Topic)
	if errors.Is(err, fault.NotFound) {
		return consumer.Layout{}, nil
	}
	if err != nil {
		return consumer.Layout{}, err
	}
	for _, s := range d.Sets {
		if s.ID == set {
			if s.Storage >= len(main.Storage) || s.Shards > main.Storage[s.Storage].Partitions {
				return consumer.Layout{}, nil
			}
			return consumer.Shards(s.Storage, s.Shards, main.Storage[s.Storage].Partitions), nil
		}
	}
	return consumer.Layout{}, nil
}
