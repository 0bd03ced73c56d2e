package subscription

import (
	"context"

	"github.com/ringfence/ringfence/api"
)

// WaitsOf finds what a group, of a subscription or not, has not finished of a key in its topic.
func (c *Subscriptions) WaitsOf(ctx context.Context, group string, key []byte) ([]api.KeyWait, error) {
	layout, err := c.layoutOf(ctx, group)
	if err != nil {
		return nil, err
	}
	return layout.WaitsOf(ctx, c.reg, group, key, c.topics.Current)
}
