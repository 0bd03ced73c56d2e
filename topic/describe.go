package ringfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

// TopicConfig is what a topic is created with. Only Partitions is required.
type TopicConfig = topic.Config

// TopicInfo describes a topic.
type TopicInfo struct {
	Name    string       `json:"name"`
	Life    string       `json:"life"` // the ID of this topic among those that had the name
	Router  topic.Router `json:"router"`
	Hash    topic.Hash   `json:"hash"`
	Produce int          `json:"produce"` // index of the storage topic that takes new records
	// Switching: producers are on their way to the next storage topic.
	Switching bool      `json:"switching,omitempty"`
	Retention Retention `json:"retention"` // of each storage topic
	// Altering: some storage topics may still have the retention that was before.
	Altering bool          `json:"altering,omitempty"`
	Storage  []StorageInfo `json:"storage"`
	Created  int64         `json:"created"` // Unix ms
	// Moved, when not nil, says to which log the topic was moved: it takes no records here, and can't
	// be consumed here.
	Moved *topic.Moved `json:"moved,omitempty"`
	// Internal is what the topic is a part of; "": it is its users'. See Produce.
	Internal string `json:"internal,omitempty"`
	// Damaged says why the topic can't be read; "": it can.
	Damaged string `json:"damaged,omitempty"`
}

// StorageInfo describes one storage topic of a topic.
type StorageInfo struct {
	Index int     `json:"index"`
	Name  string  `json:"name"`
	K     int     `json:"k"`
	Ends  []int64 `json:"ends,omitempty"` // by partition: where it was sealed; nil: it was not
	// Retired: it is gone, as all groups had finished it and no record was left. Its place stays.
	Retired    bool            `json:"retired,omitempty"`
	Partitions []PartitionInfo `json:"partitions"`
}

// PartitionInfo is the readable range of a partition.
type PartitionInfo struct {
	Partition int   `json:"partition"`
	First     int64 `json:"first"` // lowest offset that is kept
	Next      int64 `json:"next"`  // every record is below it
	Sealed    bool  `json:"sealed"`
}

// EnsureTopic makes a topic unless it exists. ErrExists when the name is taken by a topic with
// other partitions, router or hash. One that is there with another retention keeps that, which is
// logged as a warning; AlterTopic changes it.
func (c *Client) EnsureTopic(ctx context.Context, name string, cfg TopicConfig) error {
	doc, err := c.catalog.Ensure(ctx, name, cfg)
	if err == nil && doc.Retention() != cfg.Retention() {
		c.logger.Warn("the topic was there already, with another retention, which was not changed: AlterTopic does that, or ringfence topic alter", "topic", name,
			"retention_bytes", doc.RetentionBytes, "retention_age", time.Duration(doc.RetentionAgeMS)*time.Millisecond, "retention_force", doc.RetentionForce,
			"asked_bytes", cfg.RetentionBytes, "asked_age", time.Duration(cfg.RetentionAgeMS)*time.Millisecond, "asked_force", cfg.RetentionForce)
	}
	return err
}

// CreateTopic makes a topic; ErrExists when the name is taken, by whatever topic.
func (c *Client) CreateTopic(ctx context.Context, name string, cfg TopicConfig) error {
	if _, err := c.catalog.Get(ctx, name); err == nil {
		return fmt.Errorf("topic %q: %w", name, ErrExists)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	return c.catalog.Create(ctx, name, cfg)
}

// DeleteTopicOptions are the options of DeleteTopic.
type DeleteTopicOptions struct {
	// Force deletes also while groups have progress in the topic; their state goes with it.
	Force bool
	// Life, when not "", is the one that is meant, see TopicInfo: another topic of the name stays.
	Life string
}

// DeleteTopic removes a topic and its records, for good. Without Force it is ErrConflict while a
// consumer group has progress in it, and when there is one that can't be read, which may.
func (c *Client) DeleteTopic(ctx context.Context, name string, opts *DeleteTopicOptions) error {
	if _, err := c.topics.Current(ctx, name); errors.Is(err, ErrConflict) {
		return err // it was moved to another log: what is defined is not ours to delete
	}
	life, err := c.catalog.Life(ctx, name)
	if err != nil {
		return err
	}
	if opts != nil && opts.Life != "" && opts.Life != life {
		return fmt.Errorf("topic %q is not the one that was meant: %w", name, topic.ErrAnotherLife)
	}
	if err := c.inNoSubscription(ctx, name, opts != nil && opts.Force); err != nil {
		return err
	}
	if err := c.groups.DeleteAllOf(ctx, name, opts != nil && opts.Force); err != nil {
		return err
	}
	if err := c.catalog.Delete(ctx, name, life); err != nil {
		return err
	}
	c.topics.Forget(name)
	return nil
}

// Topics lists the topics, sorted by name, without the ranges of their partitions. One whose definition
// can't be read says so in Damaged, and has only a name.
func (c *Client) Topics(ctx context.Context) ([]TopicInfo, error) {
	list, err := c.catalog.List(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]TopicInfo, len(list))
	for i, t := range list {
		if t.Err != nil {
			infos[i] = TopicInfo{Name: t.Name, Damaged: t.Err.Error()}
		} else {
			infos[i] = describe(t.Definition)
		}
	}
	return infos, nil
}

// DescribeTopic describes a topic with the ranges of its partitions.
func (c *Client) DescribeTopic(ctx context.Context, name string) (TopicInfo, error) {
	t, err := c.topics.Current(ctx, name)
	if err != nil {
		return TopicInfo{}, err
	}
	info := describe(t.Document())
	for i := range info.Storage {
		if err := bounds(ctx, t, &info.Storage[i]); err != nil {
			return TopicInfo{}, err
		}
	}
	return info, nil
}

// bounds fills in the ranges of a storage topic.
func bounds(ctx context.Context, t *topic.Topic, s *StorageInfo) error {
	if s.Retired {
		return nil
	}
	st, err := t.Storage(s.Index)
	for p := 0; p < len(s.Partitions) && err == nil; p++ {
		var b commitlog.Bounds
		b, err = st.Bounds(ctx, p)
		s.Partitions[p] = PartitionInfo{Partition: p, First: b.First, Next: b.Next, Sealed: b.Sealed}
	}
	if err != nil && t.IsRetired(ctx, s.Index, err) {
		*s, err = describe(t.Document()).Storage[s.Index], nil
	}
	return err
}

func describe(d *topic.Document) TopicInfo {
	info := TopicInfo{Name: d.Name, Life: d.Life, Router: d.Router, Hash: d.Hash, Produce: d.Produce, Switching: d.Switching, Retention: d.Retention(), Altering: d.Altering, Created: d.Created, Moved: d.Moved, Internal: d.Internal}
	for i, s := range d.Storage {
		si := StorageInfo{Index: i, Name: s.Name, K: s.K, Ends: s.Ends, Retired: s.Retired, Partitions: make([]PartitionInfo, s.Partitions)}
		for p := range si.Partitions {
			si.Partitions[p].Partition, si.Partitions[p].Sealed = p, s.Retired
		}
		info.Storage = append(info.Storage, si)
	}
	return info
}
