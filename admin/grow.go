package admin

import (
	"context"

	"github.com/ringfence/ringfence/api"
)

// AddStorage adds a storage topic of so many partitions to a topic. Producers and consumers notice nothing before
// SwitchProduce.
//
// Errors: ErrNotFound for an unknown topic, ErrInvalid for a bad number of partitions.
func (c *Client) AddStorage(ctx context.Context, name string, partitions int) (api.Topic, error) {
	if _, err := c.catalog.AddStorage(ctx, name, partitions); err != nil {
		return api.Topic{}, err
	}
	return c.describeTopic(ctx, name)
}

// SwitchProduce lets new records go to the next storage topic. Producers that do not know of it yet follow by themselves:
// what the sealed storage topic refuses they send to the next one, in order. Consumers finish a storage topic before they
// begin with the next.
//
// An interrupted switch is finished by the next call, or by the first producer that meets it. ErrConflict when there is no
// next storage topic.
func (c *Client) SwitchProduce(ctx context.Context, name string) (api.Topic, error) {
	if err := c.groups.HoldNext(ctx, name); err != nil {
		return api.Topic{}, err
	}
	if _, err := c.catalog.Switch(ctx, name); err != nil {
		return api.Topic{}, err
	}
	return c.describeTopic(ctx, name)
}

// PlanTopicOptions are the options of PlanTopic.
type PlanTopicOptions struct {
	// Partitions plans a new storage topic of so many, and the switch to it. 0: the switch to the next one that there is.
	Partitions int
	// Shards are the shard counts of consumers that split the topic into fixed parts. Groups need none: they keep the order
	// of keys whatever the numbers are.
	Shards []int
}

// PlanTopic says what growing a topic would do, and whether the order of keys would hold. It changes nothing. ErrConflict
// when there is no storage topic to switch to.
func (c *Client) PlanTopic(ctx context.Context, name string, opts *PlanTopicOptions) (*api.TopicPlan, error) {
	o := orZero(opts)
	return c.topics.Plan(ctx, name, o.Partitions, o.Shards)
}

// RetireStorageOptions are the options of RetireStorage.
type RetireStorageOptions struct {
	DryRun bool // only say what would be done
}

// RetireStorage removes the storage topics of a topic that can't deliver a record any more: they are sealed, retention has
// dropped their records, and every group is past them. Their indexes stay taken. The oldest goes first; the result says of
// each sealed one that stays why it does. Members do the same by themselves, every ten minutes or so.
//
// Errors: ErrNotFound for an unknown topic, ErrConflict when it was moved to another log.
func (c *Client) RetireStorage(ctx context.Context, name string, opts *RetireStorageOptions) (*api.Retirement, error) {
	dry := orZero(opts).DryRun
	done, err := c.topics.Retire(ctx, name, dry)
	if err != nil {
		return nil, err
	}
	done.Done = !dry
	return done, nil
}
