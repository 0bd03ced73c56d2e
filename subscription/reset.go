package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/topic"
)

// A reset is a turn to a set that does not begin where the one before has ended, perhaps in another storage
// topic: then the ones after that follow as they do when a topic has grown. What is parked from there on comes
// again from the topic, and what is parked below goes along.

// AsItWas is in the place of an offset where a set begins: there the set before has ended.
const AsItWas = -1

// PlanReset returns a definition whose next turn may be a reset. ErrConflict while a turn is under way.
func (c *Catalog) PlanReset(ctx context.Context, name string) (*Document, error) {
	d, err := c.Get(ctx, name)
	if err == nil {
		_, err = c.mayTurn(ctx, d)
	}
	return d, err
}

// Reset writes down that a set of so many shards begins at these offsets of a storage topic, one for each
// partition, in the place of the one that delivers by a definition; Advance takes the next step.
// fault.Conflict when that has turned meanwhile.
func (c *Catalog) Reset(ctx context.Context, d *Document, storage, shards int, starts []int64, shed bool) (*Document, error) {
	next := d.nextSet(shards, storage)
	next.Starts, next.Shed = starts, shed
	if !soundStarts(&next) {
		return nil, fmt.Errorf("subscription %q can't begin at the offsets %v: %w", d.Name, starts, fault.Invalid)
	}
	return c.change(ctx, d.Name, func(now *Document) (bool, error) {
		if _, err := c.mayTurn(ctx, now); err != nil {
			return false, err
		}
		if now.Set().ID != d.Set().ID {
			return false, fmt.Errorf("subscription %q: its shards have turned since this was planned; repeat it: %w", d.Name, fault.Conflict)
		}
		now.Sets = append(now.Sets, next)
		return true, nil
	})
}

// soundStarts says whether a reset can have made those of a set.
func soundStarts(s *Set) bool {
	if s.Starts == nil {
		return !s.Shed
	}
	return len(s.Starts) > 0 && len(s.Starts) <= commitlog.MaxPartitions && !slices.ContainsFunc(s.Starts, func(at int64) bool { return at < AsItWas })
}

// Start is the offset at which a reset has the set begin in a partition; false: it begins where the one
// before has ended.
func (s *Set) Start(partition int) (int64, bool) {
	if partition >= len(s.Starts) || s.Starts[partition] == AsItWas {
		return 0, false
	}
	return s.Starts[partition], true
}

// anew says of positions at which a shard begins which of them a reset gave.
func (s *Set) anew(next []core.Next) []core.Next {
	for i := range next {
		if _, reset := s.Start(next[i].Partition); reset {
			next[i].Anew, next[i].Shed = true, s.Shed
		}
	}
	return next
}

// items are all records that are parked, or dead letters.
func (j *journals) items(ctx context.Context) (all []core.Item, _ error) {
	for shard := range j.Shards {
		some, err := j.Items(ctx, shard)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// parkedRecords is how many records are parked or dead letters, and would be lost with the journals.
func (j *journals) parkedRecords(ctx context.Context) (int, error) {
	all, err := j.items(ctx)
	return len(all), err
}

// A reset is a turn to a set of as many shards that begins elsewhere: docs/design/reshard.md says why. This file finds the
// places, holds what lies behind them against retention before anybody depends on it, looks once more, and writes
// the set down. From there on it is a turn like others, which members carry out, also when whoever asked is gone.

// ResetOptions are the options of a reset.
type ResetOptions struct {
	// Storage is the storage topic to begin in; nil: where the target lies, of an offset, or with Partitions, the
	// one that is delivered. Those after it are delivered in their turn, whether they were before or not.
	Storage    *int
	Partitions []int // of the one that is delivered; empty: all. The others go on as they were.
	DropParked bool  // what is parked in them, or a dead letter, is left behind: below the new place nobody gets it any more
	DryRun     bool  // only say what it would do
}

// Reset sends a subscription to another place, while it is delivered; a dry run only says what that would do.
func (c *Subscriptions) Reset(ctx context.Context, name string, to consumer.SeekTarget, opts *ResetOptions) (*api.Reset, error) {
	d, err := c.PlanReset(ctx, name)
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
		hold := consumer.NewHold(g, main, c.logger)
		hold.Begin(ctx) // members of the set that ends store what that needs
	}
	_, err = c.Advance(ctx, next)
	return out, err
}

// resetter is a reset that is being planned.
type resetter struct {
	*Subscriptions
	d     *Document
	main  *topic.Topic
	group *protocol.Group
}

// plan finds where a reset goes, and what that means. The places are those of all that it needs.
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

// sought is where a reset begins.
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

// all are the numbers below n.
func all(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// countParked says what becomes of what is parked there, or a dead letter.
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
	p.Again = max(0, p.Again) // what was parked since the positions were stored is not finished by those
}

// count says what is delivered again, parked ones included, and what is passed over.
func count(p *api.ResetPosition, was *protocol.Position) {
	p.Again, p.Skipped = max(0, was.Next-p.To), max(0, p.To-was.Next)
	for _, done := range was.Done {
		p.Again += max(0, done[1]-max(done[0], p.To))
		p.Skipped -= max(0, min(done[1], p.To)-done[0])
	}
}

// positions are those that are stored, by storage topic and partition.
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

// resetTo is where a reset has a partition begin. What went meanwhile is told.
func (d *delivery) resetTo(ctx context.Context, in dispatch.Input, at int64) (protocol.Position, error) {
	b, err := in.Source.Bounds(ctx)
	if err == nil && at < b.First {
		d.logger.Error("the subscription was sent to records that are gone by now; it begins at the first that is there", "subscription", d.Definition.Name,
			"storage", in.Storage, "partition", in.Partition, "offset", at, "first", b.First)
		at = b.First
	}
	return protocol.Position{Storage: in.Storage, Partition: in.Partition, Next: at}, err
}
