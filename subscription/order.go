package subscription

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Orders about dead letters, and about parked records that are to be finished. A list is a look at journals, and may be
// old when an operator decides. So an order names records by their round, and the shard that carries it out takes only
// those that are still as they were in that round. An order that comes too late says so (fault.Conflict), and one that
// met a reshard is given once more to the new shards.

// Order gives an order about dead letters, and returns about how many; the members of the subscription carry it
// out as soon as there are some. value is that of an edit, which is about one.
//
// fault.NotFound when an ID is none; fault.Conflict when it has a decision already, or waits behind a dead
// letter: nothing is ordered then. fault.Conflict, with how many it was in time for, when another order about
// some of them came first. Without IDs it passes over those that have one already.
func (c *Subscriptions) Order(ctx context.Context, name string, opts *Choice, verb core.Verb, value []byte) (int, error) {
	var parked *Choice
	if verb == core.Pass || verb == core.Discard {
		parked = opts
	}
	j, dead, err := c.chosen(ctx, name, opts, parked)
	if err != nil {
		return 0, err
	}
	waiting := dead
	dead = slices.DeleteFunc(slices.Clone(dead), func(l entry) bool { return !l.open() })
	if opts != nil {
		for _, id := range opts.IDs {
			if !slices.ContainsFunc(dead, func(l entry) bool { return l.ID.String() == id }) {
				return 0, fmt.Errorf("subscription %q: %w", name, notFailed(ctx, j, waiting, id))
			}
		}
	}
	var edited *commitlog.Record
	for i := range dead {
		l := &dead[i]
		if l.Lost != nil && (verb == core.Redrive || verb == core.Edit) {
			return 0, fmt.Errorf("subscription %q: dead letter %s can't be delivered again, only discarded: %w: %w", name, l.ID.String(), fault.Conflict, l.Lost)
		}
		if verb == core.Edit {
			rec, err := l.edit(value)
			if err != nil {
				return 0, fmt.Errorf("subscription %q: the new value of %s: %w", name, l.ID.String(), err)
			}
			edited = &rec
		}
	}
	user := group.Operator()
	if opts != nil && opts.By != "" {
		user = opts.By
	}
	if opts != nil && opts.DryRun {
		return len(dead), nil
	}
	late, err := c.giveOrder(ctx, j, verb, user, dead, edited, parked)
	if err == nil && len(late) > 0 {
		names := make([]string, len(late))
		for i, id := range late {
			names[i] = id.String()
		}
		err = fmt.Errorf("subscription %q: of %d dead letters, for %d the order came too late, as another one was first: %.200s: %w", name, len(dead), len(late), strings.Join(names, " "), fault.Conflict)
	}
	return len(dead) - len(late), err
}

// notFailed returns why nothing can be ordered about an ID.
func notFailed(ctx context.Context, j *journals, waiting []entry, id string) error {
	if at := slices.IndexFunc(waiting, func(l entry) bool { return l.ID.String() == id }); at >= 0 && waiting[at].Order != 0 {
		return fmt.Errorf("dead letter %s is to be %s already, as soon as a member of the subscription is there: %w", id, decided[waiting[at].Order], fault.Conflict)
	} else if at >= 0 {
		return fmt.Errorf("record %s has not failed: it waits behind one of its key that has, and goes on once that is decided about: %w", id, fault.Conflict)
	}
	history, err := j.history(ctx, &Choice{IDs: []string{id}})
	if err != nil {
		return err
	}
	if n := len(history); n > 0 {
		return fmt.Errorf("dead letter %s was %s already: %w", id, decided[history[n-1].Verb], fault.Conflict)
	}
	return fmt.Errorf("there is no failed record %q: %w", id, fault.NotFound)
}

// giveOrder writes an order down for the shards that carry it out, and returns those that it was too late for.
// During a reshard it may be too late for the old shards, and too early for the new ones: then it is given again
// to the new ones, for what is still a dead letter.
func (c *Subscriptions) giveOrder(ctx context.Context, j *journals, verb core.Verb, user string, dead []entry, edited *commitlog.Record, parked *Choice) ([]core.ID, error) {
	name, life := j.Definition.Name, j.Definition.Life()
	var late []core.ID
	for until := time.Now().Add(reshardPatience); ; {
		var err error
		if len(dead) > 0 {
			late, err = j.order(ctx, verb, user, dead, edited)
		}
		if err != nil || len(late) == 0 {
			return nil, err
		}
		d, err := c.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if d.Life() != life || !d.Turning() && d.Set().ID == j.Definition.Set().ID {
			return late, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("subscription %q: its shards are being changed, and the order was too late for those that end; repeat it when that is over: %w", name, fault.Conflict)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(reshardEvery):
		}
		var now []entry
		if j, now, err = c.chosen(ctx, name, nil, parked); err != nil {
			return nil, err
		}
		dead = slices.DeleteFunc(now, func(l entry) bool { return !l.open() || !slices.Contains(late, l.ID) })
	}
}

// reshardPatience is how long an order waits for the end of a reshard.
const reshardPatience = 30 * time.Second

// order writes down an order about dead letters; edited is the new record of the only one. It returns those that
// were no longer dead letters when the order came, or that an earlier order has.
func (j *journals) order(ctx context.Context, verb core.Verb, user string, dead []entry, edited *commitlog.Record) (late []core.ID, _ error) {
	for n := range j.Shards {
		o := shard.Ordered{Shard: n, Verb: verb, Edited: edited, User: user}
		for _, e := range dead {
			if e.Shard == n {
				if o.IDs = append(o.IDs, e.ID); edited != nil {
					o.Key = e.Key
				}
			}
		}
		some, err := j.Order(ctx, o)
		if err != nil {
			return nil, err
		}
		late = append(late, some...)
	}
	return late, nil
}

// Edited is the header of a record whose value is not that of the topic: it names the dead letter that it
// replaces.
const Edited = "ringfence-edited"

// edit returns the record that replaces a dead letter.
func (e *entry) edit(value []byte) (commitlog.Record, error) {
	out := commitlog.Record{Key: e.Record.Key, Value: value}
	out.Headers = slices.DeleteFunc(slices.Clone(e.Record.Headers), func(h commitlog.Header) bool { return h.Name == Edited })
	out.Headers = append(out.Headers, commitlog.Header{Name: Edited, Value: []byte(e.ID.String())})
	err := shard.Storable(&out)
	return out, err
}
