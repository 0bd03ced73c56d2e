package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/topic"
)

// AddStorage adds a storage topic of that many partitions to a topic. It changes nothing for
// producers and consumers until SwitchProduce.
//
// Errors: ErrNotFound for an unknown topic, ErrInvalid for a bad number of partitions.
func (c *Client) AddStorage(ctx context.Context, name string, partitions int) (TopicInfo, error) {
	if _, err := c.catalog.AddStorage(ctx, name, partitions); err != nil {
		return TopicInfo{}, err
	}
	return c.DescribeTopic(ctx, name)
}

// SwitchProduce lets new records go to the next storage topic, also those of producers that know
// nothing of it: what the sealed storage topic refuses they send to the next one, in order.
// Consumers finish a storage topic before they begin with the next, see Consume.
//
// A switch that was interrupted is finished by it, or by the first producer that meets it.
// Errors: ErrConflict when there is no next storage topic.
func (c *Client) SwitchProduce(ctx context.Context, name string) (TopicInfo, error) {
	if err := c.groups.HoldNext(ctx, name); err != nil {
		return TopicInfo{}, err
	}
	if _, err := c.catalog.Switch(ctx, name); err != nil {
		return TopicInfo{}, err
	}
	return c.DescribeTopic(ctx, name)
}

// PlanOptions are the options of PlanTopic.
type PlanOptions struct {
	// Partitions, when not 0, plans a new storage topic of so many, and the switch to it. Else the
	// plan is of the switch to the next storage topic that there is.
	Partitions int
	// Shards are the shard counts of consumers that split the topic into fixed parts. Consumer
	// groups need none: with them the order of keys holds whatever the numbers are.
	Shards []int
}

// PlanTopic says what growing a topic would do, and whether the order of keys would hold: see
// topic.Plan.Err. It changes nothing. ErrConflict when there is nothing to switch to.
func (c *Client) PlanTopic(ctx context.Context, name string, opts *PlanOptions) (*topic.Plan, error) {
	o := orDefault(opts)
	return c.topics.Plan(ctx, name, o.Partitions, o.Shards)
}
