package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/topic"
)

// Retention bounds what each storage topic of a topic keeps. The zero value keeps all.
type Retention = topic.Retention

// AlterTopicOptions are the options of AlterTopic.
type AlterTopicOptions struct {
	DryRun bool // only say what would be done
	// Estimate is the result of a dry run. What is due to go is taken from it, and not found out again.
	Estimate *RetentionChange
	// Life and From, when not empty, are what is meant to be changed: ErrNotFound when the name has another
	// topic by now, ErrConflict when that has another retention.
	Life string
	From *Retention
}

// RetentionChange says what a change of a topic's retention did, or would do.
type RetentionChange struct {
	Topic  string    `json:"topic"`
	Before Retention `json:"before"`
	After  Retention `json:"after"`
	Done   bool      `json:"done"` // false: a dry run
	// Drops are the partitions of which something is due to go by the new retention, or would be if no
	// group needed it.
	Drops []RetentionDrop `json:"drops"`
}

// RetentionDrop is what a retention drops of one partition. The numbers are estimates: a log drops in
// units of its own, some of it later, and the bytes are those of samples.
type RetentionDrop = consumer.RetentionDrop

// AlterTopic changes the retention of a topic that is there, in all its storage topics and for good.
// Other processes that have it open go by the new one within a minute. Before it changes anything it
// finds out what is due to go then, which the result has; what a group has not processed stays, unless
// r says otherwise. Interrupted, it is finished by the next one, or by a consumer of the topic.
//
// Errors: ErrNotFound for an unknown topic, ErrInvalid for a negative retention, ErrConflict when the
// topic was moved to another log.
func (c *Client) AlterTopic(ctx context.Context, name string, r Retention, opts *AlterTopicOptions) (*RetentionChange, error) {
	o := orDefault(opts)
	change, err := c.groups.Alter(ctx, name, r, consumer.AlterOptions{
		DryRun: o.DryRun, Estimate: (*consumer.RetentionChange)(o.Estimate), Life: o.Life, From: o.From,
	})
	return (*RetentionChange)(change), err
}
