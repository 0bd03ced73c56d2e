package ringfence

import (
	"context"
	"slices"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
)

// TailOptions are the options of Tail; nil is the zero value.
type TailOptions struct {
	// From is where to begin; the zero value is the oldest record that is kept. An offset needs
	// Partitions or Storage when the topic has several storage topics.
	From SeekTarget
	// Partitions are those to look at; empty: all, also those that the topic gets later. They are
	// numbered as those of SeekOptions.
	Partitions []int
	// Storage, when not nil, is the storage topic to look in.
	Storage *int
	// Key, when not nil, leaves out the records of all other keys.
	Key []byte
	// ToEnd returns at what is the end of each partition when Tail comes to it, in place of waiting for more.
	ToEnd bool
}

// Tail shows the records of a topic as they come, without a group: it keeps no progress and takes
// no partition from a member. h is called for one record at a time, in the order of each partition,
// and those of a storage topic after all of the one before, so that the records of a key come in
// their order. Their Epoch is 0.
//
// It goes on until ctx ends or h returns an error, which it returns. It returns nil when no record
// can come any more: the partitions that were asked for are sealed, and all of them was shown.
// ErrNotFound for an unknown topic, ErrOutOfRange when retention was faster, ErrCorrupt before a
// damaged record.
func (c *Client) Tail(ctx context.Context, topicName string, h Handler, opts *TailOptions) error {
	t, err := c.topics.Current(ctx, topicName)
	if err != nil {
		return err
	}
	o := orDefault(opts)
	what := consumer.TailOptions{SeekOptions: consumer.SeekOptions{Partitions: o.Partitions, Storage: o.Storage}, From: o.From, Key: o.Key, ToEnd: o.ToEnd, Logger: c.logger}
	return consumer.Tail(ctx, t, what, func(ctx context.Context, storage, partition int, r *commitlog.Record) error {
		return h(ctx, &Message{
			Topic: topicName, Storage: storage, Partition: partition, Offset: r.Offset, Attempt: 1,
			Key: r.Key, Value: r.Value, Headers: slices.Clip(r.Headers), Timestamp: time.UnixMilli(r.Timestamp),
		})
	})
}

// SeekTarget is a place in a topic; the zero value is the oldest record that is kept. SeekEarliest, SeekLatest, SeekOffset,
// SeekTime and ParseSeek make one.
type SeekTarget = consumer.SeekTarget

// The ways to make a SeekTarget.
var (
	SeekEarliest = consumer.SeekEarliest
	SeekLatest   = consumer.SeekLatest
)

// SeekOffset is an offset, the same in each partition that is sought.
func SeekOffset(offset int64) SeekTarget { return consumer.SeekOffset(offset) }

// SeekTime is the first record at or after a time.
func SeekTime(at time.Time) SeekTarget { return consumer.SeekTime(at) }

// ParseSeek reads "earliest", "latest", an offset, an RFC 3339 time, or "-15m": so long ago.
func ParseSeek(s string) (SeekTarget, error) { return consumer.ParseSeek(s) }
