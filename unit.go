package ringfence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/dispatch"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// unitWorker runs the units that a member owns: unit u is partition u of each storage topic.
type unitWorker struct {
	topic   *topic.Topic
	group   *registry.Group
	handler Handler
	opts    *ConsumeOptions
	logger  *slog.Logger
}

// Run implements group.Worker.
func (w *unitWorker) Run(ctx context.Context, u *group.Unit) error {
	start, err := w.start(ctx, u)
	if err != nil {
		return err
	}
	cfg := dispatch.Config{
		Name: strconv.Itoa(u.Number()), Start: start, From: dispatch.Earliest,
		Handler:     w.handle(u),
		Concurrency: w.opts.Concurrency, MaxInFlight: w.opts.MaxInFlight, MaxBytes: int64(w.opts.MaxInFlightBytes),
		Retry:           dispatch.Retry{Initial: w.opts.RetryInitial, Max: w.opts.RetryMax},
		ProgressTimeout: w.opts.HandlerTimeout, DrainTimeout: w.opts.DrainTimeout,
		Logger: w.logger,
	}
	for _, at := range w.inputs(u.Number()) {
		st, err := w.topic.Storage(at.storage)
		if err != nil {
			return err
		}
		cfg.Inputs = append(cfg.Inputs, dispatch.Input{Storage: at.storage, Partition: at.partition, Source: dispatch.Partition(st, at.partition)})
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

// input is one partition of a unit.
type input struct{ storage, partition int }

func (w *unitWorker) inputs(unit int) []input {
	var at []input
	for i, s := range w.topic.Document().Storage {
		if unit < s.Partitions {
			at = append(at, input{i, unit})
		}
	}
	return at
}

// start is where the unit begins. A group that wants the latest records only has its start stored
// before the first record is handled: otherwise a crash before the first checkpoint would make
// the successor begin at a later "latest", and skip what came in between.
func (w *unitWorker) start(ctx context.Context, u *group.Unit) ([]registry.Position, error) {
	var start []registry.Position
	if ck := u.Checkpoint(); ck != nil {
		start = ck.Positions
	}
	if w.opts.From != Latest {
		return start, nil
	}
	first := len(start)
	for _, at := range w.inputs(u.Number()) {
		if position(u.Checkpoint(), at.storage, at.partition) != nil {
			continue
		}
		st, err := w.topic.Storage(at.storage)
		if err != nil {
			return nil, err
		}
		b, err := st.Bounds(ctx, at.partition)
		if err != nil {
			return nil, err
		}
		start = append(start[:len(start):len(start)], registry.Position{Storage: at.storage, Partition: at.partition, Next: b.Next})
	}
	if len(start) == first {
		return start, nil
	}
	return start, w.group.Checkpoint(ctx, u.Grant(), registry.Checkpoint{Positions: start, Member: u.Member(), Updated: time.Now().UnixMilli()})
}

// handle makes messages of records.
func (w *unitWorker) handle(u *group.Unit) dispatch.Handler {
	name, h, epoch := w.topic.Document().Name, w.handler, u.Epoch()
	if w.opts.Transactional {
		h = w.transactional(h)
	}
	var slabs sync.Pool
	return func(ctx context.Context, r *dispatch.Record) error {
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
