package verify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// Once the load is over, all records that the topic keeps are read again and held against what was acknowledged: damage
// that came after a record was processed meets no consumer.

// rereader reads one topic.
type rereader struct {
	*crew
	rest    history.Rest
	retains bool      // retention may take records
	moved   time.Time // when the last record was read
	told    time.Time // when tick was called last
	tick    func() error
}

var errReadAll = errors.New("all was read")

// reread judges what the topic keeps.
func (c *crew) reread(ctx context.Context, retains bool, tick func() error) (*history.Report, error) {
	r := &rereader{crew: c, retains: retains, tick: tick, moved: time.Now()}
	paths, err := filepath.Glob(filepath.Join(c.dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		err := harness.Read(path, 0, func(e history.Event) {
			if e.Kind == history.Produced {
				r.rest.Acked(&e)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	info, err := c.rf.Admin().DescribeTopic(ctx, c.topic)
	if err != nil {
		return nil, err
	}
	gone := make(map[int]bool)
	for i, s := range info.Storage {
		gone[i] = s.Retired()
		for p := range s.Partitions {
			if gone[i] {
				break
			}
			if err := r.partition(ctx, i, p, &s.Partitions[p]); err != nil {
				return nil, fmt.Errorf("read %s again: %w", c.topic, err)
			}
		}
	}
	return r.rest.Judge(func(storage int) bool { return gone[storage] }), nil
}

// partition reads one partition to its end, past what is damaged.
func (r *rereader) partition(ctx context.Context, storage, partition int, b *api.Partition) error {
	at := history.Event{Storage: storage, Partition: partition, Offset: b.First}
	if r.retains {
		r.rest.Dropped(&at)
	}
	for at.Offset < b.Next {
		err := r.tail(ctx, &at, b.Next)
		var bad *commitlog.CorruptError
		switch {
		case err == nil || errors.Is(err, errReadAll):
			return nil
		case errors.As(err, &bad):
			at.Offset, at.Reason = bad.Offset, bad.Error()
			resume := bad.Resume
			if resume <= bad.Offset { // where to go on is not known
				resume = b.Next
			}
			r.rest.Damaged(&at, resume)
			at.Offset, at.Reason = resume, ""
		case r.retains && (errors.Is(err, ringfence.ErrOutOfRange) || errors.Is(err, ringfence.ErrNotFound)):
			r.rest.Dropped(&history.Event{Storage: storage, Partition: partition, Offset: b.Next})
			return nil // retention takes it at this moment
		case ctx.Err() != nil || time.Since(r.moved) > standing || !Away(err):
			return err
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
	return nil
}

// tail reads from an offset on, and moves it.
func (r *rereader) tail(ctx context.Context, at *history.Event, end int64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(standing, func() { stop(errReadAll) }) // the last offsets may be no records
	defer idle.Stop()
	err := r.rf.Tail(ctx, r.topic, func(_ context.Context, m *ringfence.Message) error {
		idle.Reset(standing)
		r.moved = time.Now()
		e := *at
		e.Offset, e.Key, e.Value = m.Offset, history.Key(m.Key), harness.Fingerprint(m.Key, m.Value)
		r.rest.Read(&e)
		if at.Offset = m.Offset + 1; at.Offset >= end {
			return errReadAll
		}
		if r.moved.Sub(r.told) < time.Second/4 {
			return nil
		}
		r.told = r.moved
		return r.tick()
	}, &ringfence.TailOptions{From: ringfence.SeekOffset(at.Offset), Storage: &at.Storage, Partitions: []int{at.Partition}})
	if cause := context.Cause(ctx); errors.Is(cause, errReadAll) {
		return cause
	}
	return err
}
