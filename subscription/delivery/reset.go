package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// A reset is a turn to a set of as many shards that begins elsewhere: decision 59 says why. This file finds the
// places, holds what lies behind them against retention before anybody depends on it, looks once more, and writes
// the set down. From there on it is a turn like others, which members carry out, also when whoever asked is gone.

// ResetOptions are the options of a reset.
type ResetOptions struct {
	Storage    *int  // the storage topic to move in; nil: that which is delivered
	Partitions []int // of that; empty: all. The others go on as they were.
	DropParked bool  // what is parked in them, or a dead letter, is left behind: below the new place nobody gets it any more
	DryRun     bool  // only say what it would do
}

// Reset is what sending a subscription to another place does. The numbers are of the moment when it was
// looked at; of a log whose offsets have gaps they are upper bounds.
type Reset struct {
	Name       string          `json:"name"`
	To         string          `json:"to"`
	Begun      bool            `json:"begun"` // the members are at it, or do it when there are some
	DropParked bool            `json:"drop_parked"`
	Positions  []ResetPosition `json:"positions"`
}

// ResetPosition is what a reset does in one partition.
type ResetPosition struct {
	Storage   int   `json:"storage"`
	Partition int   `json:"partition"`
	From      int64 `json:"from"` // all below was finished or parked; -1: it was not begun
	To        int64 `json:"to"`
	Next      int64 `json:"next"`    // the end of the partition
	Again     int64 `json:"again"`   // records that were finished and are delivered again
	Skipped   int64 `json:"skipped"` // that were not, and are passed over
	Anew      int   `json:"anew"`    // that are parked, or dead letters, and begin anew
	Kept      int   `json:"kept"`    // that stay so
	Dropped   int   `json:"dropped"` // that are left behind by DropParked, and nobody gets any more
}

// Reset sends a subscription to another place, while it is delivered; a dry run only says what that would do.
func (c *Subscriptions) Reset(ctx context.Context, name string, to consumer.SeekTarget, opts *ResetOptions) (*Reset, error) {
	d, err := c.PlanReset(ctx, name)
	if err != nil {
		return nil, err
	}
	main, err := c.topics.Current(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	r := resetter{Subscriptions: c, d: d, main: main}
	if r.group, err = c.reg.Group(d.Group()); err != nil {
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
	starts := slices.Repeat([]int64{subscription.AsItWas}, main.Document().Storage[0].Partitions)
	for _, p := range infos {
		starts[p.Partition] = p.Checkpoint
	}
	next, err := c.Catalog.Reset(ctx, d, starts, opts.DropParked)
	if err != nil {
		hold.End(ctx)
		return nil, err
	}
	out.Begun = true
	if g, err := c.reg.Group(next.As(next.Sets[len(next.Sets)-1]).Group()); err == nil {
		hold := consumer.NewHold(g, main, c.logger)
		hold.Begin(ctx) // members of the set that ends store what that needs
	}
	_, err = c.Advance(ctx, next)
	return out, err
}

// resetter is a reset that is being planned.
type resetter struct {
	*Subscriptions
	d     *subscription.Document
	main  *topic.Topic
	group *registry.Group
}

// plan finds where a reset goes, and what that means.
func (r *resetter) plan(ctx context.Context, to consumer.SeekTarget, opts *ResetOptions) (*Reset, []consumer.PositionInfo, error) {
	storage := 0
	partitions, err := consumer.SoughtUnits(r.main.Document(), to, &consumer.SeekOptions{Storage: &storage, Partitions: opts.Partitions})
	if opts.Storage != nil && *opts.Storage != storage {
		err = fmt.Errorf("subscription %q delivers storage topic %d; it can't be sent to storage topic %d: %w", r.d.Name, storage, *opts.Storage, fault.Invalid)
	}
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
	items, err := j.Items(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := &Reset{Name: r.d.Name, To: to.String(), DropParked: opts.DropParked, Positions: []ResetPosition{}}
	var infos []consumer.PositionInfo
	for _, n := range partitions {
		at, err := consumer.SeekPosition(ctx, r.main, storage, n, to)
		if err != nil {
			return nil, nil, err
		}
		p := ResetPosition{Storage: storage, Partition: n, From: -1, To: at.Checkpoint, Next: at.Next}
		was := have[n]
		if was == nil {
			was = &registry.Position{Next: at.First}
			if r.d.From == string(consumer.Latest) && len(r.d.Sets) == 1 {
				was.Next = at.Next
			}
		} else {
			p.From = was.Next
		}
		p.count(was)
		for _, it := range items {
			switch {
			case int(it.Storage) != storage || int(it.Partition) != n:
			case it.Offset >= p.To:
				p.Anew++
				p.Again--
			case opts.DropParked:
				p.Dropped++
			default:
				p.Kept++
			}
		}
		p.Again = max(0, p.Again) // what was parked since the positions were stored is not finished by those
		infos, out.Positions = append(infos, at), append(out.Positions, p)
	}
	return out, infos, nil
}

// count says what is delivered again, parked ones included, and what is passed over.
func (p *ResetPosition) count(was *registry.Position) {
	p.Again, p.Skipped = max(0, was.Next-p.To), max(0, p.To-was.Next)
	for _, done := range was.Done {
		p.Again += max(0, done[1]-max(done[0], p.To))
		p.Skipped -= max(0, min(done[1], p.To)-done[0])
	}
}

// positions are those that are stored, by partition.
func (r *resetter) positions(ctx context.Context) (map[int]*registry.Position, error) {
	st, err := r.group.Survey(ctx, true)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, err
	}
	have := map[int]*registry.Position{}
	for i := range st.Units {
		if c := st.Units[i].Checkpoint; c != nil {
			for k := range c.Positions {
				have[c.Positions[k].Partition] = &c.Positions[k]
			}
		}
	}
	return have, nil
}

// resetTo is where a reset has a partition begin. What went meanwhile is told.
func (d *delivery) resetTo(ctx context.Context, in dispatch.Input, at int64) (registry.Position, error) {
	b, err := in.Source.Bounds(ctx)
	if err == nil && at < b.First {
		d.logger.Error("the subscription was sent to records that are gone by now; it begins at the first that is there", "subscription", d.Definition.Name,
			"storage", in.Storage, "partition", in.Partition, "offset", at, "first", b.First)
		at = b.First
	}
	return registry.Position{Storage: in.Storage, Partition: in.Partition, Next: at}, err
}
