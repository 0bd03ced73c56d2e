package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// unitWorker runs the units that a member owns, each with one engine for all its inputs.
type unitWorker struct {
	*Config
	group   *protocol.Group
	layout  atomic.Pointer[group.Layout] // the newest
	running sync.Map                     // the first partitions (place) of units that run here
	lost    func(error)                  // ends the member: the log does not have the topic any more, or was put back
}

// lostAgain is how long after a first look a topic that the log does not have is looked for once more: a log of several
// servers may not show for a moment what it has.
const lostAgain = time.Second

// Run implements group.Worker.
func (w *unitWorker) Run(ctx context.Context, u *group.Unit) error {
	err := w.run(ctx, u)
	if !errors.Is(err, fault.NotFound) || w.Topic.CheckLog(ctx) == nil {
		return err
	}
	select {
	case <-time.After(lostAgain):
	case <-ctx.Done():
		return err
	}
	if lost := w.Topic.CheckLog(ctx); lost != nil {
		w.lost(lost)
		return lost
	}
	return err
}

func (w *unitWorker) run(ctx context.Context, u *group.Unit) error {
	layout := *w.layout.Load()
	if u.Number() >= len(layout) {
		return fmt.Errorf("topic %q has no unit %d: %w", w.Topic.Document().Name, u.Number(), fault.NotFound)
	}
	inputs := layout[u.Number()].Inputs
	first := partitionID{inputs[0].Storage, inputs[0].Partition}
	w.running.Store(first, nil)
	defer w.running.Delete(first)
	in := make([]dispatch.Input, len(inputs))
	for i, at := range inputs {
		st, err := w.Topic.Storage(at.Storage)
		if err != nil {
			return err
		}
		in[i] = dispatch.Input{Storage: at.Storage, Partition: at.Partition, Source: dispatch.Partition(st, at.Partition), Compacted: st.Config().Compacted}
	}
	start, err := w.start(ctx, u, in)
	for i, at := range inputs {
		if err == nil {
			err = w.reaches(ctx, in[i], at.End, start)
		}
	}
	if err == nil {
		start, err = w.finished(ctx, u.Number(), in, start)
	}
	if err != nil {
		return err
	}
	if w.Around != nil {
		return w.Around(ctx, u, in, w.handle(u), func(ctx context.Context, inner Inner) error { return w.engine(ctx, u, in, start, inner) })
	}
	return w.engine(ctx, u, in, start, Inner{Handler: w.handle(u), Retry: w.Engine.Retry})
}

// engine runs the records of a unit through a handler.
func (w *unitWorker) engine(ctx context.Context, u *group.Unit, in []dispatch.Input, start []protocol.Position, inner Inner) error {
	cfg := w.Engine
	if inner.Start != nil {
		start = inner.Start
	}
	cfg.Name, cfg.Start, cfg.Inputs = strconv.Itoa(u.Number()), start, in
	cfg.Handler, cfg.Retry, cfg.OnHeld, cfg.Advanced, cfg.Logger = inner.Handler, inner.Retry, inner.OnHeld, u.Advanced, w.Logger
	engine, err := dispatch.New(cfg)
	if err != nil {
		return err
	}
	if inner.Began != nil {
		inner.Began(engine)
	}
	progress := &progressOf{engine: engine, start: start, silent: w.Transactional, journal: inner.Journal, deliveries: inner.Deliveries}
	if progress.deliveries == nil {
		progress.deliveries = (&failing{engine: engine}).deliveries
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	settle, err := w.settling(in, inner.Writes, u.Advanced, lost)
	if err != nil {
		return err
	}
	var settling sync.WaitGroup
	stop := make(chan struct{})
	if settle != nil {
		u.Track(func() group.Progress { return settle.pass(progress.now()) })
		settling.Go(func() { settle.run(ctx, stop) }) // joined below
	} else {
		u.Track(progress.now)
	}
	drained := make(chan struct{})
	over := make(chan struct{})
	go func() { // joined below
		defer close(drained)
		select {
		case <-u.Draining():
		case <-inner.Enough:
		case <-over:
			return
		}
		progress.final.Store(true)
		engine.Drain()
	}()
	err = engine.Run(ctx)
	close(over)
	<-drained
	close(stop)
	settling.Wait()
	if settle != nil {
		settle.last(ctx, progress.now())
		err = cmp.Or(settle.takenBack(), err)
	}
	if lost := (*dispatch.LostError)(nil); errors.As(err, &lost) {
		err = &topic.OlderError{Topic: w.Topic.Document().Name, Storage: lost.Storage, Partition: lost.Partition, Known: lost.Offset, End: -1, By: fmt.Sprintf("group %q", w.group.Name())}
		w.lost(err)
	}
	var stuck *dispatch.StuckError
	if errors.As(err, &stuck) {
		return fmt.Errorf("%w: %w", group.ErrStuck, err)
	}
	return err
}

// start returns where the unit begins. A group that wants only the latest records has stored its start as its hold
// before the first record is handled: otherwise a crash before the first checkpoint, or a registry that forgot it,
// would make the successor begin at a later "latest", and skip what came in between.
func (w *unitWorker) start(ctx context.Context, u *group.Unit, in []dispatch.Input) ([]protocol.Position, error) {
	ck := u.Checkpoint()
	var start []protocol.Position
	if ck != nil {
		start = ck.Positions
	}
	none := func(i dispatch.Input) bool { return ck.Position(i.Storage, i.Partition) == nil }
	if !w.Latest || !slices.ContainsFunc(in, none) {
		return start, nil
	}
	meta, err := w.group.Meta(ctx)
	if err != nil || meta.Initial > 0 && u.Number() >= meta.Initial {
		return start, err // it is younger than the group: nothing in it is older than "latest"
	}
	held, err := HeldBy(ctx, w.Topic, w.group.Name())
	if err != nil {
		return nil, err
	}
	var at []protocol.Position
	for _, i := range in {
		if !none(i) {
			continue
		}
		b, err := i.Source.Bounds(ctx)
		if err != nil {
			return nil, err
		}
		p := protocol.Position{Storage: i.Storage, Partition: i.Partition, Next: b.Next}
		if own := held.at(i.Storage, i.Partition); own >= 0 || held.known() {
			p.Next = max(own, b.First)
		}
		at = append(at, p)
	}
	if err := w.settle(ctx, in); err != nil {
		return nil, err
	}
	if start, err = w.storeStart(ctx, u, at); err != nil {
		return nil, err
	}
	return start, w.lowerHold(ctx, start)
}

// lowerHold stores the hold again where that of another new member, which found a later end, is above the start. That
// member looks for the start once its hold is stored, so one of the two sees the other.
func (w *unitWorker) lowerHold(ctx context.Context, start []protocol.Position) error {
	held, err := HeldBy(ctx, w.Topic, w.group.Name())
	if err != nil || !slices.ContainsFunc(start, func(p protocol.Position) bool { return held.at(p.Storage, p.Partition) > p.Next }) {
		return err
	}
	h := NewHold(w.group, w.Topic, w.Logger)
	h.member, h.latest = true, true
	return h.store(ctx, false)
}

// storeStart adds at to the checkpoint, which it must follow: an unanswered write may reach the store
// late, and must not undo later commits. A start stored by an earlier try stays.
func (w *unitWorker) storeStart(ctx context.Context, u *group.Unit, at []protocol.Position) ([]protocol.Position, error) {
	have, err := w.group.Unit(ctx, u.Number())
	if err != nil {
		return nil, err
	}
	var start []protocol.Position
	var from int64
	if have.Checkpoint != nil {
		start, from = have.Checkpoint.Positions, have.Checkpoint.From
	}
	at = slices.DeleteFunc(at, func(p protocol.Position) bool { return have.Checkpoint.Position(p.Storage, p.Partition) != nil })
	if len(at) == 0 {
		return start, nil
	}
	start = append(start[:len(start):len(start)], at...)
	c := protocol.Checkpoint{Positions: start, From: from, Member: u.Member(), Updated: time.Now().UnixMilli()}
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
