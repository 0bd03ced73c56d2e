package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/shard"
)

// A unit's part in a reshard. A new shard waits for the ends of those before it (await), takes over what they
// left (takeOver), and delivers; an old one stops its engine, and writes the last record of its journal
// (delivery.run). They never ask each other: all that one has to know of the other stands at the end of a
// journal. The new epoch has to be above the old one, as receivers may fence by it; otherwise the unit is
// claimed again above it.

// await waits for the end of every shard of the set before that can have had records of the unit's keys.
// With neither a result nor an error the unit is to be drained.
func (w *shards) await(ctx context.Context, u *group.Unit) ([]*shard.Left, error) {
	after := w.parents.After[u.Number()]
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	left, errs := make([]*shard.Left, len(after)), make([]error, len(after))
	var wg sync.WaitGroup
	for i := range left {
		wg.Go(func() { // joined below
			from, err := w.before.Stored(waiting, after[i])
			if err == nil {
				left[i], err = w.before.Await(waiting, after[i], from)
			}
			if errs[i] = err; err != nil {
				stop()
			}
		})
	}
	all := make(chan struct{})
	go func() { // joined by the receive
		defer close(all)
		wg.Wait()
	}()
	select {
	case <-all:
	case <-u.Draining():
		stop()
		<-all
		return nil, nil
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("subscription %q, shard %d: what an earlier shard set has left can't be read: %w", w.Definition.Name, u.Number(), err)
		}
	}
	if waiting.Err() != nil {
		return nil, context.Cause(waiting)
	}
	for _, l := range left {
		if l.Epoch() >= u.Epoch() { // a receiver that fences would refuse our deliveries
			return nil, shard.Outrun(l.Epoch())
		}
	}
	return left, nil
}

// rest keeps a shard that has ended for good from starting again, until its unit is to be drained.
func (w *shards) rest(ctx context.Context, u *group.Unit, err error) error {
	if !errors.Is(err, shard.ErrEnded) {
		return err
	}
	said := ""
	for {
		err := w.of.endedUnawares(ctx, w)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			w.logger.Error("a journal of the subscription has ended, and the shard set that goes on is not known; it is looked for again", "subscription", w.Definition.Name, "error", err)
		}
		var look <-chan time.Time
		if err != nil {
			look = time.After(growEvery) // an operator may have done what the error says
		}
		select {
		case <-u.Draining():
			return nil
		case <-ctx.Done():
			return nil
		case <-look:
		}
	}
}

// endedUnawares handles the end of a set's shards. A definition that knows of no reshard, because the registry
// went back, gets it again.
func (c *Subscriptions) endedUnawares(ctx context.Context, w *shards) error {
	if w.ending() || isClosed(w.last) {
		return nil
	}
	next, err := w.successor(ctx)
	if err == nil {
		_, err = c.Restore(ctx, w.Definition, next)
	}
	return err
}

// successor returns the set that the ends of journals name.
func (w *shards) successor(ctx context.Context) (Set, error) {
	for n := range w.Shards {
		from, err := w.Stored(ctx, n)
		if err != nil {
			return Set{}, err
		}
		looking, stop := context.WithTimeout(ctx, time.Second)
		l, err := w.Await(looking, n, from)
		stop()
		if err != nil {
			continue
		}
		var next Set
		if err := json.Unmarshal(l.Final.Next, &next); err != nil {
			return Set{}, fmt.Errorf("the journal of shard %d ends with a shard set that can't be read: %w: %w", n, fault.Corrupt, err)
		}
		return next, nil
	}
	return Set{}, fmt.Errorf("no journal says which: %w", fault.NotFound)
}

// delivery is a unit's work between the start and the end of its shard.
type delivery struct {
	*shards
	unit  *group.Unit
	shard *shard.Shard
	in    []dispatch.Input
	have  *protocol.Checkpoint // as it was stored; nil: none was
	left  []*shard.Left        // what the shard takes over before it delivers; nil: nothing
}

func (d *delivery) run(ctx context.Context, engine func(context.Context, consumer.Inner) error) error {
	var start []protocol.Position
	if d.left != nil {
		var err error
		if start, err = d.takeOver(ctx); err != nil {
			return err
		}
	}
	for _, in := range d.in {
		if d.ending() {
			break // the next set looks at it anew
		}
		if fits, err := d.shard.Fit(ctx, d.unit.Draining(), d.enough, in.Storage, in.Partition, in.Source); err != nil || !fits && !d.ending() {
			return err
		}
	}
	final := start
	if d.have != nil {
		final = d.have.Positions
	}
	if !d.ending() {
		var e *dispatch.Engine
		enough, over := make(chan struct{}), make(chan struct{})
		var watching sync.WaitGroup
		err := engine(ctx, consumer.Inner{
			Handler: d.shard.Handle, Retry: d.Retry, OnHeld: d.shard.Held, Journal: d.shard.From, Deliveries: d.shard.Deliveries, Start: start, Enough: enough, Writes: d.shard.Writes(),
			Began: func(began *dispatch.Engine) {
				e = began
				d.shard.Uses(began)
				watching.Go(func() { d.watch(e, over, enough) })
			},
		})
		close(over)
		watching.Wait()
		if err != nil || !isClosed(enough) || ctx.Err() != nil {
			return err
		}
		final = merged(final, e.Final().Positions)
	}
	select {
	case <-d.unit.Draining():
		return nil // the next owner ends it
	default:
	}
	d.mu.Lock()
	next, since := d.next, d.since
	if read, ok := d.read[d.shard]; ok && isClosed(d.last) {
		since = min(since, read)
	}
	d.mu.Unlock()
	goesOn, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return d.shard.End(ctx, shard.Final{At: since, Positions: final, Next: goesOn}, d.drain)
}

// merged returns the old positions, with newer ones in their places.
func merged(old, now []protocol.Position) []protocol.Position {
	out := slices.Clone(now)
	for _, p := range old {
		if !slices.ContainsFunc(now, func(q protocol.Position) bool { return q.Storage == p.Storage && q.Partition == p.Partition }) {
			out = append(out, p)
		}
	}
	return out
}

// takeOver appends what earlier shards left to this one's journal, and returns where the main records begin.
func (d *delivery) takeOver(ctx context.Context) ([]protocol.Position, error) {
	var start []protocol.Position
	since := time.Now().UnixMilli()
	for _, in := range d.in {
		at, err := d.inherited(ctx, in)
		if err != nil {
			return nil, err
		}
		start = append(start, at)
	}
	for _, l := range d.left {
		since = min(since, l.Final.At)
	}
	set := d.Definition.Set()
	if err := d.shard.TakeOver(ctx, d.left, set.anew(shard.Nexts(start))); err != nil {
		return nil, err
	}
	for _, t := range d.shard.Writes() { // what was taken over has to last as long as the checkpoint that says so
		if err := t.Settle(ctx); err != nil {
			return nil, err
		}
	}
	c := protocol.Checkpoint{Positions: start, From: d.shard.From(start), Member: d.unit.Member(), Updated: time.Now().UnixMilli()}
	if err := d.group.Commit(ctx, d.unit.Grant(), c, ""); err != nil {
		return nil, err
	}
	d.shard.Open()
	d.left = nil // it may be large
	pause := time.Duration(max(0, time.Now().UnixMilli()-since)) * time.Millisecond
	d.logger.Info("a shard goes on for those of another shard set", "subscription", d.Definition.Name, "shard", d.unit.Number(), "of", d.Definition.Set().Shards, "paused_for", pause)
	if err := d.of.NotePause(ctx, d.Definition, pause); err != nil && ctx.Err() == nil {
		d.logger.Warn("how long the reshard took could not be noted", "subscription", d.Definition.Name, "error", err)
	}
	return start, nil
}

// inherited returns where the main records of a partition begin that an earlier set left. An unknown
// partition was never begun.
func (d *delivery) inherited(ctx context.Context, in dispatch.Input) (protocol.Position, error) {
	set := d.Definition.Set()
	if at, reset := set.Start(in.Partition); reset {
		return d.resetTo(ctx, in, at)
	}
	for _, l := range d.left {
		for _, p := range l.Final.Positions {
			if p.Storage == in.Storage && p.Partition == in.Partition {
				return p, nil
			}
		}
	}
	b, err := in.Source.Bounds(ctx)
	return protocol.Position{Storage: in.Storage, Partition: in.Partition, Next: b.First}, err
}
