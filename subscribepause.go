package ringfence

import "context"

// PauseOptions are the options of Pause.
type PauseOptions struct {
	Reason string // for people; at most 1 KiB
	// Life of the subscription that is meant, see SubscriptionInfo: one that was made anew under its name
	// is ErrNotFound. Default: any.
	Life string
}

// Pause has a subscription deliver nothing until it is resumed. Its members hear of it, in general within
// a second: no attempt is begun any more, what is being delivered ends, and progress, order and what is
// parked stay. Members that start later deliver nothing either. A subscription that is paused already
// keeps its reason. ErrNotFound when there is none.
func (c *Client) Pause(ctx context.Context, name string, opts *PauseOptions) (*SubscriptionInfo, error) {
	o := orDefault(opts)
	return c.subs.Pause(ctx, name, o.Life, o.Reason)
}

// Resume ends a pause of a subscription: it goes on where it was. ErrNotFound when there is none.
func (c *Client) Resume(ctx context.Context, name string) (*SubscriptionInfo, error) {
	return c.subs.Resume(ctx, name)
}
