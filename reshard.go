package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/subscription"
)

// ReshardOptions are the options of Reshard.
type ReshardOptions struct {
	DryRun bool // only say what it would do
}

// Resharding is what the change of a subscription's number of shards does.
type Resharding = subscription.Resharding

// NewShard is one shard of a set to come.
type NewShard = subscription.NewShard

// Reshard changes how many shards a subscription has, while it is delivered: from one for each partition of
// its topic down to one. What is being delivered ends, no other record of those shards is begun, and the new
// ones go on with all that is parked, in the order of each key. Nothing is delivered again but what a
// handler does not end within DrainTimeout. Members do that; without one it is done when there is one.
//
// ErrConflict while an earlier change is under way; ErrInvalid for a number that is too high.
func (c *Client) Reshard(ctx context.Context, name string, shards int, opts *ReshardOptions) (*Resharding, error) {
	return c.subs.Reshard(ctx, name, shards, orDefault(opts).DryRun)
}
