package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// unitWorker runs the units that a member owns: the partitions of a topic, numbered through all of
// its storage topics.
type unitWorker struct {
	*Config
	group   *registry.Group
	running sync.Map // the numbers of units that run here
}

// Run implements group.Worker.
func (w *unitWorker) Run(ctx context.Context, u *group.Unit) error {
	w.running.Store(u.Number(), nil)
	defer w.running.Delete(u.Number())
	storage, partition, ok := w.Topic.Document().Place(u.Number())
	if !ok {
		return fmt.Errorf("topic %q has no unit %d: %w", w.Topic.Document().Name, u.Number(), fault.NotFound)
	}
	st, err := w.Topic.Storage(storage)
	if err != nil {
		return err
	}
	source := dispatch.Partition(st, partition)
	start, err := w.start(ctx, u, storage, partition, source)
	if err != nil {
		return err
	}
	in := dispatch.Input{Storage: storage, Partition: partition, Source: source}
	if w.Around != nil {
		return w.Around(ctx, u, in, w.handle(u), func(ctx context.Context, inner Inner) error { return w.engine(ctx, u, in, start, inner) })
	}
	return w.engine(ctx, u, in, start, Inner{Handler: w.handle(u), Retry: w.Engine.Retry})
}

// engine runs the records of one partition through a handler.
func (w *unitWorker) engine(ctx context.Context, u *group.Unit, in dispatch.Input, start []registry.Position, inner Inner) error {
	cfg := w.Engine
	cfg.Name, cfg.Start, cfg.From = strconv.Itoa(u.Number()), start, dispatch.Earliest
	cfg.Inputs = []dispatch.Input{in}
	cfg.Handler, cfg.Retry, cfg.Moved, cfg.Logger = inner.Handler, inner.Retry, u.Moved, w.Logger
	engine, err := dispatch.New(cfg)
	if err != nil {
		return err
	}
	if inner.Began != nil {
		inner.Began(engine)
	}
	progress := &progressOf{engine: engine, start: start, silent: w.Transactional, journal: inner.Journal}
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
	if !w.Latest || position(u.Checkpoint(), storage, partition) != nil {
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
	var from int64
	if have.Checkpoint != nil {
		start, from = have.Checkpoint.Positions, have.Checkpoint.From
	}
	if position(have.Checkpoint, at.Storage, at.Partition) != nil {
		return start, nil
	}
	start = append(start[:len(start):len(start)], at)
	c := registry.Checkpoint{Positions: start, From: from, Member: u.Member(), Updated: time.Now().UnixMilli()}
	return start, w.group.Commit(ctx, u.Grant(), c, have.CheckpointVersion)
}

// handle lets a handler wait until its unit may be worked on.
func (w *unitWorker) handle(u *group.Unit) dispatch.Handler {
	h := w.Handler(u)
	return func(ctx context.Context, r *dispatch.Record) error {
		if err := u.Await(ctx); err != nil {
			return err
		}
		return h(ctx, r)
	}
}

// oldest is when the handler that runs longest was started; zero: none runs.
func oldest(s dispatch.Stats) time.Time {
	if s.Longest == 0 {
		return time.Time{}
	}
	return time.Now().Add(-s.Longest)
}
