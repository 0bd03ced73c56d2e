package delivery

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
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
// is under way, and when the topic has grown; fault.Invalid for a number that is too high.
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
	out.Shards = newShards(out.From, shards, main.Storage[0].Partitions)
	j, err := c.journalsOf(ctx, d)
	if err == nil {
		out.Parked, err = j.Parked(ctx)
	}
	if err != nil || dry {
		return out, err
	}
	_, err = c.Catalog.Reshard(ctx, name, shards)
	out.Begun = err == nil
	return out, err
}

func newShards(from, to, partitions int) []NewShard {
	all := make([]NewShard, to)
	for p := range partitions {
		s := &all[consumer.ShardOf(p, to, partitions)]
		s.Shard = consumer.ShardOf(p, to, partitions)
		s.Partitions = append(s.Partitions, p)
		if after := consumer.ShardOf(p, from, partitions); len(s.After) == 0 || s.After[len(s.After)-1] != after {
			s.After = append(s.After, after)
		}
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
	return layout.Describe(ctx, c.reg, name, c.topics.Current)
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
		if s.ID == set && s.Shards <= main.Storage[0].Partitions {
			return consumer.Shards(s.Shards, main.Storage[0].Partitions), nil
		}
	}
	return consumer.Layout{}, nil
}
