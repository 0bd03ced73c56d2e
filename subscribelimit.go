package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/subscription"
)

// NoLimit ends a bound, see Limits.
const NoLimit = subscription.NoLimit

// Limits bound what all members of a subscription deliver together.
type Limits = subscription.Limits

// LimitOptions make a change of limits depend on what was seen before it.
type LimitOptions = subscription.LimitOptions

// Limit changes how many attempts in a second all members of a subscription begin together (Limits.Rate), and
// how many they have under way at the same time (Limits.Concurrency), while it is delivered. What is 0 stays
// as it is, and NoLimit ends a bound. Members heed that when they hear of it, in general within a second; what
// they have begun goes on.
//
// The members divide the rate by the partitions that their shards read, and the concurrency by shards, and
// ask nobody for it: what one of them does not use of its part, no other gets. So a burst is at most a tenth
// of a second's worth of the rate, or one attempt for each member if that is more. While a member is taken
// for dead that is not, its part may be used twice.
//
// ErrInvalid for a concurrency that is lower than the number of shards, as each of them delivers one record at
// a time at least; ErrNotFound when there is no such subscription; ErrConflict when something is not as opts say,
// which may be nil.
func (c *Client) Limit(ctx context.Context, name string, to Limits, opts *LimitOptions) (*SubscriptionInfo, error) {
	return c.subs.Limit(ctx, name, to, opts)
}
