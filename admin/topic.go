package admin

import (
	"context"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/topic"
)

// TopicConfig is what a topic is created with. Only Partitions is required.
type TopicConfig struct {
	Partitions     int        // of the first storage topic
	Router         api.Router // default RouterModulo
	Hash           api.Hash   // default HashXXHash64
	RetentionBytes int64      // of each storage topic; 0 keeps everything
	RetentionAgeMS int64      // 0 keeps everything
	RetentionForce bool       // let retention drop what a group has not processed
	// ID takes up the storage topics of a topic of this ID, which the log still has and the registry lost. "": the topic
	// begins empty, with an ID of its own.
	ID string
}

// Validate reports every fault of a configuration for a topic of the name.
func (c TopicConfig) Validate(name string) error { return c.config().Validate(name) }

func (c TopicConfig) config() topic.Config {
	return topic.Config{
		Partitions: c.Partitions, Router: topic.Router(c.Router), Hash: topic.Hash(c.Hash), Life: c.ID,
		RetentionBytes: c.RetentionBytes, RetentionAgeMS: c.RetentionAgeMS, RetentionForce: c.RetentionForce,
	}
}

// CreateTopicOptions are the options of CreateTopic.
type CreateTopicOptions struct {
	// MustBeNew makes an existing topic ErrExists, also one of the same shape.
	MustBeNew bool
}

// CreateTopic makes a topic unless it exists. ErrExists when the name is taken by a topic with other partitions, router or
// hash. An existing topic keeps its retention; when that is another one, a warning is logged. AlterTopic changes it.
func (c *Client) CreateTopic(ctx context.Context, name string, cfg TopicConfig, opts *CreateTopicOptions) error {
	want := cfg.config()
	if orZero(opts).MustBeNew {
		return c.catalog.CreateNew(ctx, name, want, c.subs.Keep(name))
	}
	doc, err := c.catalog.EnsureUnless(ctx, name, want, c.subs.Keep(name))
	if err == nil {
		doc.TellRetention(c.logger, want)
	}
	return err
}

// ListTopics lists the topics, sorted by name. A topic whose definition can't be read says so in Damaged.
func (c *Client) ListTopics(ctx context.Context) ([]api.TopicSummary, error) {
	return c.catalog.Summaries(ctx)
}

// DescribeTopic describes a topic with the ranges of its partitions and with its groups.
func (c *Client) DescribeTopic(ctx context.Context, name string) (api.Topic, error) {
	t, err := c.describeTopic(ctx, name)
	if err == nil {
		t.Groups, err = c.topicGroups(ctx, name, len(t.Storage))
	}
	return t, err
}

func (c *Client) describeTopic(ctx context.Context, name string) (api.Topic, error) {
	t, err := c.topics.Current(ctx, name)
	if err != nil {
		return api.Topic{}, err
	}
	return t.Describe(ctx)
}

// topicGroups are the groups that consume a topic, with how far they got in its storage topics. A group that can't be
// described says so in Damaged.
func (c *Client) topicGroups(ctx context.Context, name string, storages int) ([]api.TopicGroup, error) {
	all, err := c.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	groups := []api.TopicGroup{}
	for i := range all {
		if all[i].Topic != name {
			continue
		}
		g := api.TopicGroup{Group: all[i].Name, Members: len(all[i].Members), State: all[i].State, Storage: []api.GroupStorage{}}
		full, err := c.DescribeGroup(ctx, g.Group)
		switch {
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			g.Damaged = err.Error()
		default:
			g.Storage = progress(&full, storages)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// progress is how far a group got in each storage topic.
func progress(g *api.Group, storages int) []api.GroupStorage {
	all := make([]api.GroupStorage, storages)
	for i := range all {
		all[i] = api.GroupStorage{Index: i, Finished: true}
	}
	for _, u := range g.Units {
		for _, p := range u.Positions {
			if p.Storage < storages {
				s := &all[p.Storage]
				s.Lag += p.Lag
				s.Finished = s.Finished && u.Phase == api.Finished
			}
		}
	}
	return all
}

// AlterTopicOptions are the options of AlterTopic.
type AlterTopicOptions struct {
	DryRun bool // only say what would be done
	// Estimate is the result of a dry run, from which the drops are taken instead of being computed again.
	Estimate *api.RetentionChange
	// ID and From are what is meant to be changed: ErrNotFound when the name has a topic of another ID by now, ErrConflict
	// when that has another retention. "" and nil: whatever there is.
	ID   string
	From *api.Retention
}

// AlterTopic changes the retention of a topic, in all its storage topics. Other processes that have the topic open go by the
// new one within a minute. The result says what is due to go then; what a group has not processed stays, unless r says
// otherwise. An interrupted change is finished by the next one, or by a consumer of the topic.
//
// Errors: ErrNotFound for an unknown topic, ErrInvalid for a negative retention, ErrConflict when the topic was moved to
// another log.
func (c *Client) AlterTopic(ctx context.Context, name string, r api.Retention, opts *AlterTopicOptions) (*api.RetentionChange, error) {
	o := orZero(opts)
	return c.groups.Alter(ctx, name, topic.Retention(r), consumer.AlterOptions{
		DryRun: o.DryRun, Estimate: o.Estimate, Life: o.ID, From: (*topic.Retention)(o.From),
	})
}

// DeleteTopicOptions are the options of DeleteTopic.
type DeleteTopicOptions struct {
	Force  bool   // delete also while groups have progress in the topic, which goes with it
	DryRun bool   // only say whether it would be refused
	ID     string // of the topic that is meant: a topic of the name with another ID stays. "": any
}

// DeleteTopic removes a topic and its records, for good. Without Force it is ErrConflict while a consumer group has progress
// in the topic, or can't be read; with Force too when a newer version wrote that group.
func (c *Client) DeleteTopic(ctx context.Context, name string, opts *DeleteTopicOptions) error {
	o := orZero(opts)
	return c.subs.DeleteTopic(ctx, name, o.ID, o.Force, o.DryRun)
}
