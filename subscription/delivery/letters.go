package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/core"
)

// Dead letters, for people: lists of them, and orders about them. A list is a look at journals, and may be old
// by the time that somebody decides; so an order names letters by their round, and the shard that carries it
// out takes only those that are still dead letters in that round. Who comes too late is told (fault.Conflict),
// and an order that met a turn of the shard set is given once more to the new shards.

// Status says what holds a record back, or what was decided about it.
type Status string

// The statuses.
const (
	StatusFailed    Status = "failed"    // it was given up
	StatusBlocked   Status = "blocked"   // it waits behind one of its key that was
	StatusRedriven  Status = "redriven"  // it was delivered again, or is as soon as it may be
	StatusSkipped   Status = "skipped"   // it was passed over
	StatusDiscarded Status = "discarded" // it was finished as it is
	StatusEdited    Status = "edited"    // it was delivered again with another value, or is as soon as it may be
)

// decided are the statuses by what was ordered.
var decided = map[core.Verb]Status{
	core.Redrive: StatusRedriven, core.Pass: StatusSkipped, core.Discard: StatusDiscarded, core.Edit: StatusEdited,
}

// DeadLetter is a record of a subscription that is not delivered until somebody decides, or of which
// somebody has decided.
type DeadLetter struct {
	ID        string
	Topic     string
	Storage   int
	Partition int
	Offset    int64
	Key       []byte // nil: none
	Value     []byte
	Headers   []commitlog.Header
	Timestamp time.Time
	Attempts  int
	Status    Status
	Failed    bool   // its status is StatusFailed
	Ordered   Status // what becomes of it as soon as a member is there, as somebody has decided; "": nobody has
	Reason    string // attempts or permanent; "" while it waits
	Answer    string // the last error
	FailedAt  time.Time
	DecidedAt time.Time // when somebody decided about it; zero: nobody has
	// Lost says why Value and Headers are missing: the log has them no more, and it can only be discarded.
	// "": they are there.
	Lost string
}

// DeadLetters lists what is not delivered until somebody decides, in order of key and place. With an error
// it lists what could be read.
func (c *Subscriptions) DeadLetters(ctx context.Context, name string, opts *Choice) ([]DeadLetter, error) {
	j, letters, err := c.letters(ctx, name, opts)
	if j != nil && opts != nil && opts.Decided {
		history, also := j.History(ctx)
		err = errors.Join(err, also)
		letters = slices.DeleteFunc(letters, func(l subscription.Letter) bool { // it was carried out between the two looks
			return slices.ContainsFunc(history, func(h subscription.Letter) bool { return h.ID == l.ID })
		})
		more, unfit := opts.choose(j.Definition.Topic, history)
		letters, err = append(letters, more...), errors.Join(err, unfit)
		slices.SortStableFunc(letters, func(a, b subscription.Letter) int {
			return cmp.Or(slices.Compare(a.Item.Key, b.Item.Key), a.ID.Compare(b.ID.Origin), cmp.Compare(a.ID.Round, b.ID.Round))
		})
	}
	out := make([]DeadLetter, len(letters))
	for i := range letters {
		out[i] = deadLetterOf(j.Definition.Topic, &letters[i])
	}
	return out, err
}

func deadLetterOf(topic string, l *subscription.Letter) DeadLetter {
	d := DeadLetter{
		ID: subscription.Name(l.ID), Topic: topic, Storage: int(l.ID.Storage), Partition: int(l.ID.Partition), Offset: l.ID.Offset,
		Key: l.Record.Key, Value: l.Record.Value, Headers: l.Record.Headers, Timestamp: time.UnixMilli(l.Record.Timestamp),
		Attempts: l.Item.Attempts, Status: StatusBlocked, Failed: l.Failed, Answer: l.Item.Answer,
	}
	if l.Lost != nil {
		d.Lost = l.Lost.Error()
	}
	if l.Failed {
		d.Status = StatusFailed
	}
	if l.Verb == 0 {
		d.Ordered = decided[l.Item.Order]
	}
	if l.Verb != 0 {
		d.Status, d.DecidedAt = decided[l.Verb], time.UnixMilli(l.Decided)
	}
	if d.Status != StatusBlocked {
		d.Reason = l.Item.Reason.String()
	}
	if l.Item.Since > 0 {
		d.FailedAt = time.UnixMilli(l.Item.Since)
	}
	return d
}

// Order gives an order about dead letters, and returns about how many; the members of the subscription carry
// it out as soon as there are some. value is that of an edit, which is of one.
//
// fault.NotFound when an ID is none; fault.Conflict when it was one and somebody has decided about it, or when
// it waits behind one: nothing is ordered then. fault.Conflict, with how many it was in time for, when somebody
// else's order about some of them came first. Without IDs it passes over those that have one already.
func (c *Subscriptions) Order(ctx context.Context, name string, opts *Choice, verb core.Verb, value []byte) (int, error) {
	j, letters, err := c.letters(ctx, name, opts)
	if err != nil {
		return 0, err
	}
	waiting := letters
	letters = slices.DeleteFunc(slices.Clone(letters), func(l subscription.Letter) bool { return !l.Failed || l.Item.Order != 0 })
	if opts != nil {
		for _, id := range opts.IDs {
			if !slices.ContainsFunc(letters, func(l subscription.Letter) bool { return subscription.Name(l.ID) == id }) {
				return 0, fmt.Errorf("subscription %q: %w", name, notFailed(ctx, j, waiting, id))
			}
		}
	}
	var edited *commitlog.Record
	for i := range letters {
		l := &letters[i]
		if err := deliverable(l, verb); err != nil {
			return 0, fmt.Errorf("subscription %q: dead letter %s %w", name, subscription.Name(l.ID), err)
		}
		if verb == core.Edit {
			rec, err := l.Edit(value)
			if err != nil {
				return 0, fmt.Errorf("subscription %q: the new value of %s: %w", name, subscription.Name(l.ID), err)
			}
			edited = &rec
		}
	}
	if opts != nil && opts.DryRun {
		return len(letters), nil
	}
	late, err := c.giveOrder(ctx, j, verb, letters, edited)
	if err == nil && len(late) > 0 {
		names := make([]string, len(late))
		for i, id := range late {
			names[i] = subscription.Name(id)
		}
		err = fmt.Errorf("subscription %q: of %d dead letters, for %d the order came too late, as another one was first: %.200s: %w", name, len(letters), len(late), strings.Join(names, " "), fault.Conflict)
	}
	return len(letters) - len(late), err
}

// deliverable says what is in the way of an order.
func deliverable(l *subscription.Letter, verb core.Verb) error {
	switch {
	case verb != core.Redrive && verb != core.Edit:
	case l.ID.Round >= core.MaxRound:
		return fmt.Errorf("was delivered again as often as it can be, and can only be discarded: %w", fault.Conflict)
	case l.Lost != nil:
		return fmt.Errorf("can't be delivered again, only discarded: %w: %w", fault.Conflict, l.Lost)
	}
	return nil
}

// notFailed says why nothing can be ordered about an ID.
func notFailed(ctx context.Context, j *subscription.Journals, waiting []subscription.Letter, id string) error {
	named := func(l subscription.Letter) bool { return subscription.Name(l.ID) == id }
	if at := slices.IndexFunc(waiting, named); at >= 0 && waiting[at].Item.Order != 0 {
		return fmt.Errorf("dead letter %s is to be %s already, as soon as a member of the subscription is there: %w", id, decided[waiting[at].Item.Order], fault.Conflict)
	} else if at >= 0 {
		return fmt.Errorf("record %s has not failed: it waits behind one of its key that has, and goes on once that is decided about: %w", id, fault.Conflict)
	}
	history, err := j.History(ctx)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(history, named); at >= 0 {
		return fmt.Errorf("dead letter %s was %s already: %w", id, decided[history[at].Verb], fault.Conflict)
	}
	return fmt.Errorf("there is no failed record %q: %w", id, fault.NotFound)
}

// giveOrder writes an order down for the shards that carry it out, and returns those that it was too late for.
// While the shard set turns, that may be so of shards that end, and of those that come it may be too early: then
// it is given again to these, for what is still a dead letter.
func (c *Subscriptions) giveOrder(ctx context.Context, j *subscription.Journals, verb core.Verb, letters []subscription.Letter, edited *commitlog.Record) ([]core.ID, error) {
	name, life := j.Definition.Name, j.Definition.Life()
	var late []core.ID
	for until := time.Now().Add(turnPatience); ; {
		var err error
		if len(letters) > 0 {
			late, err = j.Order(ctx, verb, letters, edited)
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
		case <-time.After(turnEvery):
		}
		var now []subscription.Letter
		if j, now, err = c.letters(ctx, name, nil); err != nil {
			return nil, err
		}
		letters = slices.DeleteFunc(now, func(l subscription.Letter) bool {
			return !l.Failed || l.Item.Order != 0 || !slices.Contains(late, l.ID)
		})
	}
}

// turnPatience is how long an order waits for the end of a turn.
const turnPatience = 30 * time.Second

func (c *Subscriptions) letters(ctx context.Context, name string, opts *Choice) (*subscription.Journals, []subscription.Letter, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := j.Letters(ctx)
	all, unfit := opts.choose(j.Definition.Topic, all)
	return j, all, errors.Join(err, unfit)
}
