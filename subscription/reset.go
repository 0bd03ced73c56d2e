package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/topic"
)

// A reset is a reshard to a set that does not begin where the one before ended, perhaps in another storage
// topic; later sets then follow as after growth. Records parked at or above the new place come again from the
// topic; those parked below go along. See docs/design/reshard.md.
//
// This file finds the places, holds what lies behind them against retention before anything depends on it, looks once
// more, and writes the set down. Members carry it out, also when the caller is gone.

// AsItWas stands for the offset of a partition in which a set begins where the set before ended.
const AsItWas = -1

// Reset writes down a set that replaces the active one of d: it has so many shards, and begins at starts,
// one offset for each partition of a storage topic. Advance takes the next step. fault.Conflict when the
// active set has changed meanwhile.
func (c *Catalog) Reset(ctx context.Context, d *Document, storage, shards int, starts []int64, shed bool) (*Document, error) {
	next := d.nextSet(shards, storage)
	next.Starts, next.Shed = starts, shed
	return c.change(ctx, d.Name, func(now *Document) (bool, error) {
		if _, err := c.mayTurn(ctx, now); err != nil {
			return false, err
		}
		if now.Set().ID != d.Set().ID {
			return false, fmt.Errorf("subscription %q: it was resharded since this was planned; repeat it: %w", d.Name, fault.Conflict)
		}
		now.Sets = append(now.Sets, next)
		return true, nil
	})
}

// Start returns the offset at which a reset makes the set begin in a partition; false: it begins where
// the set before ended.
func (s *Set) Start(partition int) (int64, bool) {
	if partition >= len(s.Starts) || s.Starts[partition] == AsItWas {
		return 0, false
	}
	return s.Starts[partition], true
}

// anew marks the positions at which a shard begins because of a reset.
func (s *Set) anew(next []core.Next) []core.Next {
	for i := range next {
		if _, reset := s.Start(next[i].Partition); reset {
			next[i].Anew, next[i].Shed = true, s.Shed
		}
	}
	return next
}

// items returns all parked records and dead letters.
func (j *journals) items(ctx context.Context) ([]core.Item, error) {
	return eachShard(j, func(shard int) ([]core.Item, error) { return j.Items(ctx, shard) })
}

// parkedRecords counts the parked records and dead letters, which would be lost with the journals.
func (j *journals) parkedRecords(ctx context.Context) (int, error) {
	all, err := j.items(ctx)
	return len(all), err
}

// ResetOptions are the options of a reset.
type ResetOptions struct {
	// Storage is the storage topic to begin in; nil: where the target lies; for an offset, or with Partitions,
	// the present one. The storage topics after it are delivered in turn, again if need be.
	Storage    *int
	Partitions []int // of the present storage topic; empty: all. The others go on.
	DropParked bool  // forget parked records and dead letters of the partitions: those below the new place are never delivered
	DryRun     bool  // only say what it would do
}

// Reset moves a subscription to another place, while it is delivered; a dry run only says what that would do.
func (c *Subscriptions) Reset(ctx context.Context, name string, to consumer.SeekTarget, opts *ResetOptions) (*api.Reset, error) {
	d, err := c.Get(ctx, name)
	if err == nil {
		_, err = c.mayTurn(ctx, d)
	}
	if err != nil {
		return nil, err
	}
	main, err := c.topics.Current(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	r := resetter{Subscriptions: c, d: d, main: main}
	if r.group, err = protocol.NewGroup(c.reg, d.Group()); err != nil {
		return nil, err
	}
	out, infos, err := r.plan(ctx, to, opts)
	if err != nil || opts.DryRun {
		return out, err
	}
	hold := consumer.NewHold(r.group, main, c.logger)
	if err := hold.Descend(ctx, infos, make([]bool, len(infos))); err != nil {
		return nil, fmt.Errorf("reset of subscription %q: hold what it needs again: %w", name, err)
	}
	if out, infos, err = r.plan(ctx, to, opts); err != nil { // retention may have been at work until the hold was stored
		return nil, err
	}
	starts := slices.Repeat([]int64{AsItWas}, main.Document().Storage[out.Storage].Partitions)
	for _, p := range infos {
		if p.Storage == out.Storage {
			starts[p.Partition] = p.Checkpoint
		}
	}
	next, err := c.Catalog.Reset(ctx, d, out.Storage, out.Shards, starts, opts.DropParked)
	if err != nil {
		hold.End(ctx)
		return nil, err
	}
	out.Begun = true
	if g, err := protocol.NewGroup(c.reg, next.As(next.Sets[len(next.Sets)-1]).Group()); err == nil {
		consumer.NewHold(g, main, c.logger).Begin(ctx) // members of the ending set store what that needs
	}
	_, err = c.Advance(ctx, next)
	return out, err
}

// resetter plans a reset.
type resetter struct {
	*Subscriptions
	d     *Document
	main  *topic.Topic
	group *protocol.Group
}

// plan finds where a reset goes, and what that means. It returns the places of all that it needs.
func (r *resetter) plan(ctx context.Context, to consumer.SeekTarget, opts *ResetOptions) (*api.Reset, []api.Position, error) {
	now, doc := r.d.Set().Storage, r.main.Document()
	storage, partitions, err := r.sought(ctx, to, opts)
	if err != nil {
		return nil, nil, err
	}
	have, err := r.positions(ctx)
	if err != nil {
		return nil, nil, err
	}
	j, err := r.journalsOf(ctx, r.d)
	if err != nil {
		return nil, nil, err
	}
	items, err := j.items(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := &api.Reset{Name: r.d.Name, To: to.String(), DropParked: opts.DropParked, Storage: storage, Shards: r.d.Set().Shards, Positions: []api.ResetPosition{}}
	if storage != now {
		out.Shards = r.d.ShardsFor(doc, storage)
	}
	for _, it := range items {
		if int(it.Storage) < min(storage, now) {
			out.Earlier++
		}
	}
	var infos []api.Position
	for s := max(min(storage, now), doc.Left()); s <= max(storage, now); s++ {
		target, of := to, partitions
		if s != storage {
			target, of = consumer.SeekEarliest, all(doc.Storage[s].Partitions)
			if s < storage {
				target = consumer.SeekLatest
			}
		}
		for _, n := range of {
			at, err := consumer.SeekPosition(ctx, r.main, s, n, target)
			if err != nil {
				return nil, nil, err
			}
			p := api.ResetPosition{Storage: s, Partition: n, From: -1, To: at.Checkpoint, Next: at.Next}
			was := have[[2]int{s, n}]
			switch {
			case was != nil:
				p.From = was.Next
			case s < now:
				was = &protocol.Position{Next: at.Next} // earlier sets have delivered it
				p.From = at.Next
			default:
				was = &protocol.Position{Next: at.First}
				if r.d.From == string(consumer.Latest) && len(r.d.Sets) == 1 && s == now {
					was.Next = at.Next
				}
			}
			count(&p, was)
			countParked(&p, items, opts.DropParked)
			out.Positions = append(out.Positions, p)
			if s >= storage {
				infos = append(infos, at)
			}
		}
	}
	return out, infos, nil
}

// sought finds where a reset begins.
func (r *resetter) sought(ctx context.Context, to consumer.SeekTarget, opts *ResetOptions) (storage int, partitions []int, err error) {
	now, doc := r.d.Set().Storage, r.main.Document()
	switch storage = now; {
	case opts.Storage != nil:
		storage = *opts.Storage
	case len(opts.Partitions) == 0:
		if storage, err = to.Storage(ctx, r.main, now); err != nil {
			return 0, nil, err
		}
	}
	units, err := consumer.SoughtUnits(doc, to, &consumer.SeekOptions{Storage: &storage, Partitions: opts.Partitions})
	if err == nil && storage > doc.Produce {
		err = fmt.Errorf("storage topic %d of topic %q takes no records yet; the newest that does is %d: %w", storage, doc.Name, doc.Produce, fault.Invalid)
	}
	if err == nil && storage != now && len(units) != doc.Storage[storage].Partitions {
		err = fmt.Errorf("subscription %q delivers storage topic %d; only as a whole it can be sent to storage topic %d, not single partitions: %w", r.d.Name, now, storage, fault.Invalid)
	}
	if err != nil {
		return 0, nil, err
	}
	for _, n := range units {
		partitions = append(partitions, n-doc.Unit(storage, 0))
	}
	return storage, partitions, nil
}

// all returns the numbers below n.
func all(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// countParked counts what becomes of a partition's parked records and dead letters.
func countParked(p *api.ResetPosition, items []core.Item, drop bool) {
	for _, it := range items {
		switch {
		case int(it.Storage) != p.Storage || int(it.Partition) != p.Partition:
		case it.Offset >= p.To:
			p.Anew++
			p.Again--
		case drop:
			p.Dropped++
		default:
			p.Kept++
		}
	}
	p.Again = max(0, p.Again) // records parked since the positions were stored are not finished by them
}

// count says how much is delivered again, parked records included, and how much is passed over.
func count(p *api.ResetPosition, was *protocol.Position) {
	p.Again, p.Skipped = max(0, was.Next-p.To), max(0, p.To-was.Next)
	for _, done := range was.Done {
		p.Again += max(0, done[1]-max(done[0], p.To))
		p.Skipped -= max(0, min(done[1], p.To)-done[0])
	}
}

// positions returns the stored ones, by storage topic and partition.
func (r *resetter) positions(ctx context.Context) (map[[2]int]*protocol.Position, error) {
	st, err := r.group.Sketch(ctx, true)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, err
	}
	have := map[[2]int]*protocol.Position{}
	for i := range st.Units {
		if c := st.Units[i].Checkpoint; c != nil {
			for k := range c.Positions {
				have[[2]int{c.Positions[k].Storage, c.Positions[k].Partition}] = &c.Positions[k]
			}
		}
	}
	return have, nil
}

// resetTo returns where a reset makes a partition begin, and logs what was lost meanwhile.
func (d *delivery) resetTo(ctx context.Context, in dispatch.Input, at int64) (protocol.Position, error) {
	b, err := in.Source.Bounds(ctx)
	if err == nil && at < b.First {
		d.logger.Error("the subscription was sent to records that are gone by now; it begins at the first that is there", "subscription", d.Definition.Name,
			"storage", in.Storage, "partition", in.Partition, "offset", at, "first", b.First)
		at = b.First
	}
	return protocol.Position{Storage: in.Storage, Partition: in.Partition, Next: at}, err
}
