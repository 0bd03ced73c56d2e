package ringfence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// unitWorker runs the units that a member owns: the partitions of a topic, numbered through all of
// its storage topics.
type unitWorker struct {
	topic   *topic.Topic
	group   *registry.Group
	handler Handler
	opts    *ConsumeOptions
	logger  *slog.Logger
	running sync.Map // the numbers of units that run here
}

// Run implements group.Worker.
func (w *unitWorker) Run(ctx context.Context, u *group.Unit) error {
	w.running.Store(u.Number(), nil)
	defer w.running.Delete(u.Number())
	storage, partition, ok := w.topic.Document().Place(u.Number())
	if !ok {
		return fmt.Errorf("topic %q has no unit %d: %w", w.topic.Document().Name, u.Number(), ErrNotFound)
	}
	st, err := w.topic.Storage(storage)
	if err != nil {
		return err
	}
	source := dispatch.Partition(st, partition)
	start, err := w.start(ctx, u, storage, partition, source)
	if err != nil {
		return err
	}
	cfg := dispatch.Config{
		Name: strconv.Itoa(u.Number()), Start: start, From: dispatch.Earliest,
		Inputs:      []dispatch.Input{{Storage: storage, Partition: partition, Source: source}},
		Handler:     w.handle(u),
		Concurrency: w.opts.Concurrency, MaxInFlight: w.opts.MaxInFlight, MaxBytes: int64(w.opts.MaxInFlightBytes),
		Retry:           dispatch.Retry{Initial: w.opts.RetryInitial, Max: w.opts.RetryMax},
		ProgressTimeout: w.opts.HandlerTimeout, DrainTimeout: w.opts.DrainTimeout,
		Moved:  u.Moved,
		Logger: w.logger,
	}
	engine, err := dispatch.New(cfg)
	if err != nil {
		return err
	}
	progress := &progressOf{engine: engine, start: start, silent: w.opts.Transactional}
	u.Track(progress.now)
	drained := make(chan struct{})
	over := make(chan struct{})
	go func() { // joined below
		defer close(drained)
		select {
		case <-u.Draining():
			progress.final.Store(true)
			engine.Drain()
		case <-over:
		}
	}()
	err = engine.Run(ctx)
	close(over)
	<-drained
	var stuck *dispatch.StuckError
	if errors.As(err, &stuck) {
		return fmt.Errorf("%w: %w", group.ErrStuck, err)
	}
	return err
}

// start is where the unit begins. A group that wants the latest records only has its start stored
// before the first record is handled: otherwise a crash before the first checkpoint would make
// the successor begin at a later "latest", and skip what came in between.
func (w *unitWorker) start(ctx context.Context, u *group.Unit, storage, partition int, source dispatch.Source) ([]registry.Position, error) {
	var start []registry.Position
	if ck := u.Checkpoint(); ck != nil {
		start = ck.Positions
	}
	if w.opts.From != Latest || position(u.Checkpoint(), storage, partition) != nil {
		return start, nil
	}
	meta, err := w.group.Meta(ctx)
	if err != nil || meta.Initial > 0 && u.Number() >= meta.Initial {
		return start, err // it came after the group: nothing in it is older than "latest"
	}
	b, err := source.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	return w.storeStart(ctx, u, registry.Position{Storage: storage, Partition: partition, Next: b.Next})
}

// storeStart adds at to the checkpoint, which it must follow: a write that is not answered may reach
// the store late, and must not undo what was committed since. If an earlier try reached it, that is
// the start.
func (w *unitWorker) storeStart(ctx context.Context, u *group.Unit, at registry.Position) ([]registry.Position, error) {
	have, err := w.group.Unit(ctx, u.Number())
	if err != nil {
		return nil, err
	}
	var start []registry.Position
	if have.Checkpoint != nil {
		start = have.Checkpoint.Positions
	}
	if position(have.Checkpoint, at.Storage, at.Partition) != nil {
		return start, nil
	}
	start = append(start[:len(start):len(start)], at)
	c := registry.Checkpoint{Positions: start, Member: u.Member(), Updated: time.Now().UnixMilli()}
	return start, w.group.Commit(ctx, u.Grant(), c, have.CheckpointVersion)
}

// handle makes messages of records.
func (w *unitWorker) handle(u *group.Unit) dispatch.Handler {
	name, h, epoch := w.topic.Document().Name, w.handler, u.Epoch()
	if w.opts.Transactional {
		h = w.transactional(h)
	}
	var slabs sync.Pool
	return func(ctx context.Context, r *dispatch.Record) error {
		if err := u.Await(ctx); err != nil {
			return err
		}
		slab, _ := slabs.Get().(*[]Message)
		if slab == nil || len(*slab) == 0 {
			fresh := make([]Message, slabMessages)
			slab = &fresh
		}
		m := &(*slab)[0]
		*slab = (*slab)[1:]
		slabs.Put(slab)
		*m = Message{
			Topic: name, Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, Epoch: epoch, Attempt: r.Attempt,
			Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.UnixMilli(r.Timestamp),
		}
		if w.opts.Transactional {
			m.commit = w.commitment(u.Grant(), u.Member(), r)
		}
		return h(ctx, m)
	}
}

// slabMessages is how many messages are allocated at once. A handler that keeps one message keeps
// the memory of its slab, some KiB, beside the bytes it was read with.
const slabMessages = 32

// oldest is when the handler that runs longest was started; zero: none runs.
func oldest(s dispatch.Stats) time.Time {
	if s.Longest == 0 {
		return time.Time{}
	}
	return time.Now().Add(-s.Longest)
}
