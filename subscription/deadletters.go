package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Dead letters, for people: what is not delivered until an operator decides, and what was decided.

// decided maps each verb to the status it leaves.
var decided = map[core.Verb]api.DeadLetterStatus{
	core.Redrive: api.Redriven, core.Pass: api.Skipped, core.Discard: api.Discarded, core.Edit: api.Edited,
}

// entry is a dead letter, or a record that waits behind one of its key, as journals have it.
type entry struct {
	core.Item
	Shard  int
	Parked bool             // it failed, is tried again, and waits for nothing
	Record commitlog.Record // the user's
	Lost   error            // why the record can't be read; nil: it is there
	Verb   core.Verb        // what was ordered, once it is done with
	User   string           // gave that order
	At     int64            // when, in Unix milliseconds
}

// failed reports a dead letter without a decision; other entries wait, or are done with.
func (e *entry) failed() bool { return e.Dead && e.Verb == 0 }

// open reports whether an order can be given about an entry.
func (e *entry) open() bool { return (e.failed() || e.Parked) && e.Order == 0 }

func byKeyAndPlace(a, b entry) int {
	return cmp.Or(slices.Compare(a.Key, b.Key), a.ID.Compare(b.ID.Origin), cmp.Compare(a.Round, b.Round))
}

// DeadLetters lists what is not delivered until an operator decides, in order of key and place. With an
// error it lists what could be read.
func (c *Subscriptions) DeadLetters(ctx context.Context, name string, opts *Choice) ([]api.DeadLetter, error) {
	j, all, err := c.chosen(ctx, name, opts, nil)
	if j != nil && opts != nil && opts.Decided {
		history, also := j.history(ctx, opts)
		err = errors.Join(err, also)
		last := map[core.ID]int64{}
		for i := range history {
			last[history[i].ID] = max(last[history[i].ID], history[i].At)
		}
		all = slices.DeleteFunc(all, func(e entry) bool { // it was carried out between the two looks
			at, done := last[e.ID]
			return done && e.Since <= at
		})
		all = append(all, history...)
		slices.SortStableFunc(all, byKeyAndPlace)
	}
	out := make([]api.DeadLetter, len(all))
	for i := range all {
		out[i] = deadLetterOf(j.Definition.Topic, &all[i])
	}
	return out, err
}

func deadLetterOf(topic string, e *entry) api.DeadLetter {
	d := api.DeadLetter{
		ID: e.ID.String(), Topic: topic, Storage: int(e.Storage), Partition: int(e.Partition), Offset: e.Offset,
		Headers: make([]api.Header, len(e.Record.Headers)), Attempts: e.Attempts, Status: api.Blocked, Answer: e.Answer, FailedAt: api.Millis(e.Since),
	}
	d.Key, d.KeyEncoding = api.KeyText(e.Record.Key)
	d.Value, d.ValueEncoding = api.Text(e.Record.Value)
	for i, h := range e.Record.Headers {
		d.Headers[i].Name = h.Name
		d.Headers[i].Value, d.Headers[i].ValueEncoding = api.Text(h.Value)
	}
	if e.Lost != nil {
		d.Lost = e.Lost.Error()
	}
	switch {
	case e.Verb != 0:
		d.Status, d.DecidedAt, d.DecidedBy = decided[e.Verb], api.Millis(e.At), e.User
	case e.failed():
		d.Status = api.Failed
	}
	if e.Verb == 0 {
		d.Ordered = decided[e.Order]
	}
	if d.Status != api.Blocked && e.Reason != 0 {
		d.Reason = e.Reason.String()
	}
	return d
}

// chosen returns the matching dead letters of a subscription, and what waits behind them; and what parked chooses of
// the records that are tried again, nil: nothing.
func (c *Subscriptions) chosen(ctx context.Context, name string, opts, parked *Choice) (*journals, []entry, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := j.deadLetters(ctx, parked)
	all, unfit := opts.choose(j.Definition.Topic, all)
	return j, all, errors.Join(err, unfit)
}

// deadLetters returns all records that wait for a decision, and those that parked chooses of what is tried again. With an error they are those of the shards that could be read.
func (j *journals) deadLetters(ctx context.Context, parked *Choice) ([]entry, error) {
	all, err := eachShard(j, func(shard int) ([]entry, error) {
		some, err := j.deadLettersOf(ctx, shard, parked)
		return some, errors.Join(err, j.Whole(ctx, shard))
	})
	slices.SortStableFunc(all, byKeyAndPlace)
	return all, err
}

// eachShard gathers what f finds in each shard. With an error it has that of the shards that could be read.
func eachShard[T any](j *journals, f func(shard int) ([]T, error)) (all []T, _ error) {
	var errs []error
	for shard := range j.Shards {
		some, err := f(shard)
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
		}
		if errors.Is(err, fault.NotFound) {
			j.reopen()
		}
		all = append(all, some...)
	}
	return all, errors.Join(errs...)
}

func (j *journals) deadLettersOf(ctx context.Context, shard int, parked *Choice) (all []entry, _ error) {
	items, err := j.Items(ctx, shard)
	if err != nil {
		return nil, err
	}
	blocked := map[string]bool{}
	for _, it := range items {
		tried := false
		switch {
		case it.Dead && it.Blocking && it.Key != nil:
			blocked[string(it.Key)] = true
		case it.Dead:
		case it.Key == nil || !blocked[string(it.Key)]:
			if !parked.namesParked(&it) {
				continue
			}
			tried = true
		}
		e := entry{Item: it, Shard: shard, Parked: tried}
		if e.Record, e.Lost, err = j.Payload(ctx, shard, &it); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// history returns the matching ones of what became of records of all sets by orders; a record that was redriven and given up
// again appears for each time. With an error it is what could be read.
func (j *journals) history(ctx context.Context, opts *Choice) (all []entry, _ error) {
	wanted, err := opts.chooses(j.Definition.Topic)
	if err != nil {
		return nil, err
	}
	some, err := j.History(ctx, func(d *shard.Decision) bool { e := decidedEntry(d); return wanted(&e) })
	if errors.Is(err, fault.NotFound) {
		j.reopen()
	}
	for i := range some {
		all = append(all, decidedEntry(&some[i]))
	}
	return all, err
}

func decidedEntry(d *shard.Decision) entry {
	e := entry{Item: d.Item, Record: d.Record, Verb: d.Verb, User: d.User, At: d.At}
	if d.Lost {
		e.Lost = errNoCopy
	}
	return e
}

var errNoCopy = errors.New("it could not be read any more when it was decided about")
