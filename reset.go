package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/subscription"
)

// ResetOptions are the options of ResetSubscription.
type ResetOptions = subscription.ResetOptions

// Reset is what sending a subscription to another place does.
type Reset = subscription.Reset

// ResetPosition is what a reset does in one partition.
type ResetPosition = subscription.ResetPosition

// ResetSubscription sends a subscription, live or not, back or forward in its topic, each key in its order:
// the shards that deliver end, and others begin there. What was done from there on is delivered again, also
// what is parked or a dead letter there, as if for the first time. What is parked below stays parked, in front
// of what comes again of its key, unless DropParked leaves it behind. Members do that; without one it is done
// when there is one.
//
// Of a topic that has grown it goes to any storage topic, from which on all others follow: that where the target
// lies, or opts.Storage.
//
// ErrConflict while an earlier reset or Reshard is under way; ErrInvalid for an offset or a partition that is
// not there.
func (c *Client) ResetSubscription(ctx context.Context, name string, to SeekTarget, opts *ResetOptions) (*Reset, error) {
	if opts == nil {
		opts = &ResetOptions{}
	}
	return c.subs.Reset(ctx, name, to, opts)
}
