package topic

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// Topic is an open composite topic. Its methods may be called concurrently.
type Topic struct {
	doc     *Document
	storage []*commitlog.Topic
	keyless atomic.Uint64 // spreads records without a key
}

// Document is the definition the topic was opened with; it must not be changed.
func (t *Topic) Document() *Document { return t.doc }

// Storage is the open storage topic i.
func (t *Topic) Storage(i int) (*commitlog.Topic, error) {
	if i < 0 || i >= len(t.storage) {
		return nil, fmt.Errorf("topic %q has storage topics 0 to %d; %d is out of range: %w", t.doc.Name, len(t.storage)-1, i, fault.Invalid)
	}
	return t.storage[i], nil
}

// Units is the number of units that a consumer group of this topic shares out.
func (t *Topic) Units() int { return t.doc.Storage[0].Partitions }

// Route returns where a record with this key is produced: the storage topic under the produce
// pointer and a partition of it. Records without a key (nil) go round robin.
func (t *Topic) Route(key []byte) (storage, partition int) {
	storage = t.doc.Produce
	s := &t.doc.Storage[storage]
	if key == nil {
		return storage, int((t.keyless.Add(1) - 1) % uint64(s.Partitions))
	}
	return storage, t.doc.Router.Route(t.doc.Hash.sum(key), s.Partitions, s.K)
}

// Append produces records that belong to one partition of one storage topic, see Route, and
// waits until they are stored. It returns the first offset.
func (t *Topic) Append(ctx context.Context, storage, partition int, recs []commitlog.Record) (int64, error) {
	st, err := t.Storage(storage)
	if err != nil {
		return 0, err
	}
	return st.Append(ctx, partition, recs, nil)
}

// AppendAsync produces records that belong to one partition of one storage topic, see Route.
func (t *Topic) AppendAsync(ctx context.Context, storage, partition int, recs []commitlog.Record, opts *commitlog.AppendOptions, done func(first int64, err error)) {
	st, err := t.Storage(storage)
	if err != nil {
		done(0, err)
		return
	}
	st.AppendAsync(ctx, partition, recs, opts, done)
}

// Close releases the handles.
func (t *Topic) Close() error {
	var errs []error
	for _, s := range t.storage {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
