package dispatch

import (
	"context"

	"github.com/ringfence/ringfence/commitlog"
)

// Source is one partition of a commit log; see commitlog.Topic for the contracts of the calls.
type Source interface {
	// Read appends readable records from offset on to dst, up to about maxBytes but at least one
	// when there is one, and returns the offset to read next. It does not wait. The bytes of the
	// records never change.
	Read(ctx context.Context, offset int64, dst []commitlog.Record, maxBytes int) ([]commitlog.Record, int64, error)
	// Wait blocks until there is a record at or after offset, or the partition is sealed.
	Wait(ctx context.Context, offset int64) error
	// Bounds is the readable range.
	Bounds(ctx context.Context) (commitlog.Bounds, error)
}

// Partition makes a Source of a partition of a storage topic.
func Partition(t *commitlog.Topic, partition int) Source { return topicPartition{t, partition} }

type topicPartition struct {
	topic     *commitlog.Topic
	partition int
}

func (p topicPartition) Read(ctx context.Context, offset int64, dst []commitlog.Record, maxBytes int) ([]commitlog.Record, int64, error) {
	return p.topic.Read(ctx, p.partition, offset, dst, &commitlog.ReadOptions{MaxBytes: maxBytes})
}

func (p topicPartition) Wait(ctx context.Context, offset int64) error {
	return p.topic.Wait(ctx, p.partition, offset)
}

func (p topicPartition) Bounds(ctx context.Context) (commitlog.Bounds, error) {
	return p.topic.Bounds(ctx, p.partition)
}
