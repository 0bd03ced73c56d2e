package admin

import (
	"context"

	"github.com/ringfence/ringfence/api"
)

// CheckTopic shows a topic as the registry and the log have it, and what the registry has forgotten. It changes nothing.
//
// Errors: ErrNotFound when neither of the two has the topic.
func (c *Client) CheckTopic(ctx context.Context, name string) (*api.TopicCheck, error) {
	return c.catalog.Check(ctx, name)
}

// RepairTopicOptions are the options of RepairTopic.
type RepairTopicOptions struct {
	DryRun bool // only say what would be done
}

// RepairTopic brings the definition of a topic forward to what the log has, as processes do by themselves where the two
// contradict each other. It removes no record. A topic that the registry has forgotten is defined again.
//
// Errors: ErrNotFound when neither the registry nor the log has the topic.
func (c *Client) RepairTopic(ctx context.Context, name string, opts *RepairTopicOptions) (*api.TopicCheck, error) {
	return c.catalog.Repair(ctx, name, orZero(opts).DryRun)
}
