package ringfence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/topic"
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
}

// Tail shows the records of a topic as they come, without a group: it keeps no progress and takes
// no partition from anybody. h is called for one record at a time, in the order of each partition,
// and those of a storage topic after all of the one before, so that the records of a key come in
// their order. Their Epoch is 0.
//
// It goes on until ctx ends or h returns an error, which it returns. It returns nil when no record
// can come any more: the partitions that were asked for are sealed, and all of them was shown.
// ErrNotFound for an unknown topic, ErrOutOfRange when retention was faster, ErrCorrupt before a
// damaged record.
func (c *Client) Tail(ctx context.Context, topicName string, h Handler, opts *TailOptions) error {
	if opts == nil {
		opts = &TailOptions{}
	}
	t, err := c.topics.Current(ctx, topicName)
	if err != nil {
		return err
	}
	doc := t.Document()
	units, err := consumer.SoughtUnits(doc, opts.From, &SeekOptions{Partitions: opts.Partitions, Storage: opts.Storage})
	if err != nil {
		return err
	}
	l := &tail{topic: t, key: opts.Key, handler: h, start: map[partitionID]int64{}}
	for _, n := range units {
		storage, partition, _ := doc.Partition(n)
		p, err := consumer.SeekPosition(ctx, t, storage, partition, opts.From)
		if err != nil {
			return err
		}
		l.start[partitionID{storage, partition}] = p.Checkpoint
	}
	known := len(doc.Storage)
	for storage := doc.Left(); ; storage++ {
		if storage == known {
			if len(opts.Partitions) > 0 || opts.Storage != nil {
				return nil
			}
			if err := c.grown(ctx, t, known); err != nil {
				return err
			}
			if known, err = l.discover(ctx, known); err != nil {
				return err
			}
		}
		if err := l.storage(ctx, storage); err != nil {
			return err
		}
	}
}

// discover lets what came after the known storage topics be shown from its first record on, and
// returns how many are known then.
func (l *tail) discover(ctx context.Context, known int) (int, error) {
	doc := l.topic.Document()
	for ; known < len(doc.Storage); known++ {
		for p := range doc.Storage[known].Partitions {
			first, err := consumer.SeekPosition(ctx, l.topic, known, p, SeekEarliest)
			if err != nil {
				return known, err
			}
			l.start[partitionID{known, p}] = first.Checkpoint
		}
	}
	return known, nil
}

// grown returns when a topic has more storage topics than that.
func (c *Client) grown(ctx context.Context, t *topic.Topic, than int) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	err := t.Follow(following, c.logger, func() {
		if len(t.Document().Storage) > than {
			stop()
		}
	})
	if err == nil && len(t.Document().Storage) <= than {
		err = errors.Join(context.Cause(ctx), ErrClosed)
	}
	return err
}

// partitionID is a partition of a topic.
type partitionID struct{ storage, partition int }

// tail is one call of Tail.
type tail struct {
	topic   *topic.Topic
	key     []byte
	handler Handler
	start   map[partitionID]int64
}

// shown is what a partition has for the handler.
type shown struct {
	partition int
	records   []commitlog.Record
	err       error // it ended; io.EOF: there will be no more
}

// storage shows a storage topic until it is sealed and all was shown.
func (l *tail) storage(ctx context.Context, storage int) error {
	st, err := l.topic.Storage(storage)
	if err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	batches := make(chan shown)
	open := 0
	for p := range st.Config().Partitions {
		from, ok := l.start[partitionID{storage, p}]
		if !ok {
			continue
		}
		open++
		readers.Go(func() { l.read(reading, st, p, from, batches) }) // joined above
	}
	for open > 0 {
		select {
		case b := <-batches:
			if errors.Is(b.err, io.EOF) {
				open--
				continue
			}
			if b.err != nil && ctx.Err() == nil && l.topic.IsRetired(ctx, storage, b.err) {
				b.err = topic.ErrRetired
			}
			if b.err != nil {
				return fmt.Errorf("topic %q, partition %d of storage topic %d: %w", l.topic.Document().Name, b.partition, storage, b.err)
			}
			if err := l.show(ctx, storage, &b); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// read hands over what a partition has, until its end, ctx's, or an error.
func (l *tail) read(ctx context.Context, st *commitlog.Topic, partition int, from int64, batches chan<- shown) {
	r := st.NewReader(partition, from, nil)
	for b := (shown{partition: partition}); b.err == nil; {
		b.records, b.err = r.Next(ctx)
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
	}
}

func (l *tail) show(ctx context.Context, storage int, b *shown) error {
	name := l.topic.Document().Name
	for i := range b.records {
		r := &b.records[i]
		if l.key != nil && (r.Key == nil || !bytes.Equal(r.Key, l.key)) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := l.handler(ctx, &Message{
			Topic: name, Storage: storage, Partition: b.partition, Offset: r.Offset, Attempt: 1,
			Key: r.Key, Value: r.Value, Headers: slices.Clip(r.Headers), Timestamp: time.UnixMilli(r.Timestamp),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
