package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// TailOptions say what Tail shows; SeekOptions.DryRun has no effect.
type TailOptions struct {
	SeekOptions            // the partitions to look at; empty: all, also those that the topic gets later
	From        SeekTarget // where to begin
	Key         []byte     // when not nil, the records of all other keys are left out
	ToEnd       bool       // end at what is the end of each partition when Tail comes to it, in place of waiting for more
	Logger      *slog.Logger
}

// Shown gets a record that Tail shows.
type Shown func(ctx context.Context, storage, partition int, r *commitlog.Record) error

// Tail shows the records of a topic as they come, without a group: one at a time, in the order of each
// partition, and those of a storage topic after all of the one before. It goes on until ctx ends or h
// returns an error, which it returns; it returns nil when no record can come any more.
func Tail(ctx context.Context, t *topic.Topic, o TailOptions, h Shown) error {
	doc := t.Document()
	units, err := SoughtUnits(doc, o.From, &o.SeekOptions)
	if err != nil {
		return err
	}
	l := &tail{topic: t, key: o.Key, toEnd: o.ToEnd, show: h, start: map[partitionID]int64{}}
	for _, n := range units {
		storage, partition, _ := doc.Partition(n)
		p, err := SeekPosition(ctx, t, storage, partition, o.From)
		if err != nil {
			return err
		}
		l.start[partitionID{storage, partition}] = p.Checkpoint
	}
	known := len(doc.Storage)
	for storage := doc.Left(); ; storage++ {
		if storage == known {
			if len(o.Partitions) > 0 || o.Storage != nil || o.ToEnd {
				return nil
			}
			if err := l.grown(ctx, known, o.Logger); err != nil {
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

// discover shows later storage topics from their first record on, and returns how many are known
// then.
func (l *tail) discover(ctx context.Context, known int) (int, error) {
	doc := l.topic.Document()
	for ; known < len(doc.Storage); known++ {
		for p := range doc.Storage[known].Partitions {
			first, err := SeekPosition(ctx, l.topic, known, p, SeekEarliest)
			if err != nil {
				return known, err
			}
			l.start[partitionID{known, p}] = first.Checkpoint
		}
	}
	return known, nil
}

// grown returns when the topic has more storage topics than that.
func (l *tail) grown(ctx context.Context, than int, logger *slog.Logger) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	err := l.topic.Follow(following, logger, func() {
		if len(l.topic.Document().Storage) > than {
			stop()
		}
	})
	if err == nil && len(l.topic.Document().Storage) <= than {
		err = errors.Join(context.Cause(ctx), fault.Closed)
	}
	return err
}

// tail is one call of Tail.
type tail struct {
	topic *topic.Topic
	key   []byte
	toEnd bool
	show  Shown
	start map[partitionID]int64
}

// batch is what a partition has to show.
type batch struct {
	partition int
	records   []commitlog.Record
	err       error // the error of its end; io.EOF: there will be no more
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
	batches := make(chan batch)
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
			if err := l.showAll(ctx, storage, &b); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// read passes on the records of a partition, until its end, ctx's, or an error.
func (l *tail) read(ctx context.Context, st *commitlog.Topic, partition int, from int64, batches chan<- batch) {
	next := st.NewReader(partition, from, nil).Next
	if l.toEnd {
		next = toEnd(st, partition, from)
	}
	for b := (batch{partition: partition}); b.err == nil; {
		b.records, b.err = next(ctx)
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
	}
}

// toEnd reads a partition up to what is its end now; io.EOF is there.
func toEnd(st *commitlog.Topic, partition int, at int64) func(context.Context) ([]commitlog.Record, error) {
	end := int64(-1)
	return func(ctx context.Context) ([]commitlog.Record, error) {
		if end < 0 {
			b, err := st.Bounds(ctx, partition)
			if err != nil {
				return nil, err
			}
			end = b.Next
		}
		for at < end {
			recs, next, err := st.Read(ctx, partition, at, nil, nil)
			for len(recs) > 0 && recs[len(recs)-1].Offset >= end {
				recs = recs[:len(recs)-1]
			}
			if next == at && err == nil {
				break
			}
			if at = next; len(recs) > 0 {
				return recs, nil // an error that came with them comes again
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, io.EOF
	}
}

func (l *tail) showAll(ctx context.Context, storage int, b *batch) error {
	for i := range b.records {
		r := &b.records[i]
		if l.key != nil && (r.Key == nil || !bytes.Equal(r.Key, l.key)) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.show(ctx, storage, b.partition, r); err != nil {
			return err
		}
	}
	return nil
}
