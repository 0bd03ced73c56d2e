package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	describe := func(ctx context.Context) (api.Topic, error) { return c.rf.Admin().DescribeTopic(ctx, c.topic) }
	info, err := asked(ctx, describe)
	if err != nil {
		return nil, err
	}
	for i, s := range info.Storage {
		for p := range s.Partitions {
			if s.Retired() {
				break
			}
			if err := r.partition(ctx, i, p, &s.Partitions[p]); err != nil {
				return nil, fmt.Errorf("read %s again: %w", c.topic, err)
			}
		}
	}
	if retains { // which goes on while this reads
		if info, err = asked(ctx, describe); err != nil {
			return nil, err
		}
		for i, s := range info.Storage {
			for p := range s.Partitions {
				r.rest.Dropped(&history.Event{Storage: i, Partition: p, Offset: s.Partitions[p].First})
			}
		}
	}
	return r.rest.Judge(func(storage int) bool { return info.Storage[storage].Retired() }), nil
}

// asked asks again while the store is away, for a minute.
func asked[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for began := time.Now(); ; {
		answer, err := ask(ctx)
		if !Away(err) || ctx.Err() != nil || time.Since(began) > standing {
			return answer, err
		}
		if err := pause(ctx, look); err != nil {
			return answer, err
		}
	}
}

// partition reads one partition to its end, past what is damaged.
func (r *rereader) partition(ctx context.Context, storage, partition int, b *api.Partition) error {
	at := history.Event{Storage: storage, Partition: partition, Offset: b.First}
	for at.Offset < b.Next {
		err := r.pass(ctx, &at)
		if err == nil && at.Offset < b.Next {
			err = r.tail(ctx, &at, b.Next)
		}
		var bad *commitlog.CorruptError
		switch {
		case r.retains && errors.Is(err, errReadAll) && time.Since(r.moved) < standing: // or retention took the rest
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
		case r.retains && (errors.Is(err, ringfence.ErrOutOfRange) || errors.Is(err, ringfence.ErrNotFound) || errors.Is(err, ringfence.ErrInvalid)):
			// It is taken at this moment, or was before the reading began.
		case ctx.Err() != nil || time.Since(r.moved) > standing || !Away(err):
			return err
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
	return nil
}

// pass moves an offset past what retention has taken.
func (r *rereader) pass(ctx context.Context, at *history.Event) error {
	if !r.retains {
		return nil
	}
	info, err := r.rf.Admin().DescribeTopic(ctx, r.topic)
	if err != nil {
		return err
	}
	if s := &info.Storage[at.Storage]; s.Retired() {
		at.Offset = math.MaxInt64
	} else {
		at.Offset = max(at.Offset, s.Partitions[at.Partition].First)
	}
	return nil
}

// tail reads from an offset on, and moves it.
func (r *rereader) tail(ctx context.Context, at *history.Event, end int64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	patience := standing
	if r.retains {
		patience = time.Second
	}
	idle := time.AfterFunc(patience, func() { stop(errReadAll) }) // the last offsets may be no records
	defer idle.Stop()
	err := r.rf.Tail(ctx, r.topic, func(_ context.Context, m *ringfence.Message) error {
		idle.Reset(patience)
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
