package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/topic"
)

// TopicConfig is what a topic is created with. Only Partitions is required.
type TopicConfig = topic.Config

// TopicInfo describes a topic.
type TopicInfo = topic.Info

// StorageInfo describes one storage topic of a topic.
type StorageInfo = topic.StorageInfo

// PartitionInfo is the readable range of a partition.
type PartitionInfo = topic.PartitionInfo

// EnsureTopic makes a topic unless it exists. ErrExists when the name is taken by a topic with
// other partitions, router or hash. One that is there with another retention keeps that, which is
// logged as a warning; AlterTopic changes it.
func (c *Client) EnsureTopic(ctx context.Context, name string, cfg TopicConfig) error {
	doc, err := c.catalog.EnsureUnless(ctx, name, cfg, c.subs.Keep(name))
	if err == nil {
		doc.TellRetention(c.logger, cfg)
	}
	return err
}

// CreateTopic makes a topic; ErrExists when the name is taken, by whatever topic.
func (c *Client) CreateTopic(ctx context.Context, name string, cfg TopicConfig) error {
	return c.catalog.CreateNew(ctx, name, cfg, c.subs.Keep(name))
}

// DeleteTopicOptions are the options of DeleteTopic.
type DeleteTopicOptions struct {
	// Force deletes also while groups have progress in the topic; their state goes with it.
	Force bool
	// DryRun only says whether it would be refused.
	DryRun bool
	// Life, when not "", is the one that is meant, see TopicInfo: another topic of the name stays.
	Life string
}

// DeleteTopic removes a topic and its records, for good. Without Force it is ErrConflict while a
// consumer group has progress in it, and when there is one that can't be read, which may; with Force too when a newer
// version wrote that and the topic is named in it.
func (c *Client) DeleteTopic(ctx context.Context, name string, opts *DeleteTopicOptions) error {
	o := orDefault(opts)
	return c.subs.DeleteTopic(ctx, name, o.Life, o.Force, o.DryRun)
}

// Topics lists the topics, sorted by name, without the ranges of their partitions. One whose definition
// can't be read says so in Damaged, and has only a name.
func (c *Client) Topics(ctx context.Context) ([]TopicInfo, error) { return c.catalog.Infos(ctx) }

// DescribeTopic describes a topic with the ranges of its partitions.
func (c *Client) DescribeTopic(ctx context.Context, name string) (TopicInfo, error) {
	t, err := c.topics.Current(ctx, name)
	if err != nil {
		return TopicInfo{}, err
	}
	return t.Describe(ctx)
}
