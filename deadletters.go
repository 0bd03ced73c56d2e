package ringfence

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/core"
)

// DeadLetter is a record of a subscription that is not delivered until somebody decides.
type DeadLetter struct {
	ID        string
	Topic     string
	Storage   int
	Partition int
	Offset    int64
	Key       []byte // nil: none
	Value     []byte
	Headers   []Header
	Timestamp time.Time
	Attempts  int
	Failed    bool   // it was given up; else it waits behind one of its key that was
	Reason    string // attempts or permanent; "" while it waits
	Answer    string // the last error
	FailedAt  time.Time
	// Lost says why Value and Headers are missing: the log has them no more, and it can only be discarded.
	// "": they are there.
	Lost string
}

// DeadLetterOptions choose among dead letters; the zero value chooses all.
type DeadLetterOptions struct {
	IDs   []string
	Key   []byte    // nil: any
	Since time.Time // only those that failed for the first time then or later; zero: any
}

func (o *DeadLetterOptions) match(l *subscription.Letter, name string) bool {
	return o == nil || (len(o.IDs) == 0 || slices.Contains(o.IDs, name)) && (o.Key == nil || l.Item.Key != nil && bytes.Equal(o.Key, l.Item.Key)) &&
		(o.Since.IsZero() || l.Item.Since > 0 && !time.UnixMilli(l.Item.Since).Before(o.Since.Truncate(time.Millisecond)))
}

// DeadLetters lists what is not delivered until somebody decides, in order of key and place. With an error
// it lists what could be read.
func (c *Client) DeadLetters(ctx context.Context, name string, opts *DeadLetterOptions) ([]DeadLetter, error) {
	j, letters, err := c.letters(ctx, name, opts)
	out := make([]DeadLetter, 0, len(letters))
	for _, l := range letters {
		d := DeadLetter{
			ID: subscription.Name(l.ID), Topic: j.Definition.Topic, Storage: int(l.ID.Storage), Partition: int(l.ID.Partition), Offset: l.ID.Offset,
			Key: l.Record.Key, Value: l.Record.Value, Headers: l.Record.Headers, Timestamp: time.UnixMilli(l.Record.Timestamp),
			Attempts: l.Item.Attempts, Failed: l.Failed, Answer: l.Item.Answer,
		}
		if l.Lost != nil {
			d.Lost = l.Lost.Error()
		}
		if l.Failed {
			d.Reason = l.Item.Reason.String()
		}
		if l.Item.Since > 0 {
			d.FailedAt = time.UnixMilli(l.Item.Since)
		}
		out = append(out, d)
	}
	return out, err
}

// Redrive orders that dead letters be delivered again, each in its place in the order of its key, before
// what waits behind it. It returns how many that are; the members of the subscription do it as soon as
// there are some. ErrNotFound when an ID is none.
func (c *Client) Redrive(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.orderLetters(ctx, name, opts, core.Redrive)
}

// Discard orders that dead letters be finished as they are: the keys that they block go on without them.
func (c *Client) Discard(ctx context.Context, name string, opts *DeadLetterOptions) (int, error) {
	return c.orderLetters(ctx, name, opts, core.Discard)
}

func (c *Client) orderLetters(ctx context.Context, name string, opts *DeadLetterOptions, verb core.Verb) (int, error) {
	j, letters, err := c.letters(ctx, name, opts)
	if err != nil {
		return 0, err
	}
	letters = slices.DeleteFunc(letters, func(l subscription.Letter) bool { return !l.Failed })
	if opts != nil {
		for _, id := range opts.IDs {
			if !slices.ContainsFunc(letters, func(l subscription.Letter) bool { return subscription.Name(l.ID) == id }) {
				return 0, fmt.Errorf("subscription %q has no failed record %q: %w", name, id, ErrNotFound)
			}
		}
	}
	if verb == core.Redrive {
		for _, l := range letters {
			if l.ID.Round >= core.MaxRound {
				return 0, fmt.Errorf("subscription %q: dead letter %s was delivered again as often as it can be, and can only be discarded: %w", name, subscription.Name(l.ID), ErrConflict)
			}
			if l.Lost != nil {
				return 0, fmt.Errorf("subscription %q: dead letter %s can't be delivered again, only discarded: %w: %w", name, subscription.Name(l.ID), ErrConflict, l.Lost)
			}
		}
	}
	return len(letters), c.giveOrder(ctx, j, verb, letters)
}

// giveOrder writes an order down for the shards that carry it out. While the shard set turns, that may be too
// late for those that end, and too early for those that come: then it is given again to these, for what is
// still a dead letter. It is carried out once: it names the rounds of its records.
func (c *Client) giveOrder(ctx context.Context, j *subscription.Journals, verb core.Verb, letters []subscription.Letter) error {
	name, life := j.Definition.Name, j.Definition.Life()
	for until := time.Now().Add(turnPatience); ; {
		if err := j.Order(ctx, verb, letters); err != nil {
			return err
		}
		d, err := c.subscriptions().Get(ctx, name)
		if err != nil {
			return err
		}
		if d.Life() != life || !d.Turning() && d.Set().ID == j.Definition.Set().ID {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("subscription %q: its shards are being changed, and nobody knows whether the order was in time; repeat it when that is over: %w", name, ErrConflict)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(turnEvery):
		}
		var now []subscription.Letter
		if j, now, err = c.letters(ctx, name, nil); err != nil {
			return err
		}
		letters = slices.DeleteFunc(now, func(l subscription.Letter) bool {
			return !l.Failed || !slices.ContainsFunc(letters, func(was subscription.Letter) bool { return was.ID == l.ID })
		})
	}
}

// turnPatience is how long an order waits for the end of a turn.
const turnPatience = 30 * time.Second

func (c *Client) letters(ctx context.Context, name string, opts *DeadLetterOptions) (*subscription.Journals, []subscription.Letter, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := j.Letters(ctx)
	return j, slices.DeleteFunc(all, func(l subscription.Letter) bool { return !opts.match(&l, subscription.Name(l.ID)) }), err
}
