package ringfence

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/subscription"
)

// ReshardOptions are the options of Reshard.
type ReshardOptions struct {
	DryRun bool // only say what it would do
}

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

// Reshard changes how many shards a subscription has, while it is delivered: from one for each partition of
// its topic down to one. What is being delivered ends, no other record of those shards is begun, and the new
// ones go on with all that is parked, in the order of each key. Nothing is delivered again but what a
// handler does not end within DrainTimeout. Members do that; without one it is done when there is one.
//
// ErrConflict while an earlier change is under way, and when the topic has grown; ErrInvalid for a number
// that is too high.
func (c *Client) Reshard(ctx context.Context, name string, shards int, opts *ReshardOptions) (*Resharding, error) {
	d, err := c.subscriptions().PlanReshard(ctx, name, shards)
	if err != nil {
		return nil, err
	}
	main, err := c.catalog.Get(ctx, d.Topic)
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
	if err != nil || opts != nil && opts.DryRun {
		return out, err
	}
	_, err = c.subscriptions().Reshard(ctx, name, shards)
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

// layoutOf is how the units of a group read its topic.
func (c *Client) layoutOf(ctx context.Context, group string) (consumer.Layout, error) {
	name, set, ok := subscription.OfGroup(group)
	if !ok {
		return consumer.Layout{}, nil
	}
	d, err := c.subscriptions().Get(ctx, name)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrCorrupt) {
		return consumer.Layout{}, nil // what is left of one
	}
	if err != nil {
		return consumer.Layout{}, err
	}
	main, err := c.catalog.Get(ctx, d.Topic)
	if errors.Is(err, ErrNotFound) {
		return consumer.Layout{}, nil
	}
	if err != nil {
		return consumer.Layout{}, err
	}
	for _, s := range d.Sets {
		if s.ID == set {
			return consumer.Shards(s.Shards, main.Storage[0].Partitions), nil
		}
	}
	return consumer.Layout{}, nil
}
