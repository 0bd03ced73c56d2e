package subscription

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/shard"
	"github.com/ringfence/ringfence/topic"
)

// Subscriptions holds the subscriptions of a client: their definitions, and all that makes them run.
type Subscriptions struct {
	*Catalog
	groups *consumer.Groups
	reg    *registry.Registry
	topics *topic.Handles
	logger *slog.Logger
}

// New returns the subscriptions whose groups are among these.
func New(groups *consumer.Groups) *Subscriptions {
	c := &Subscriptions{
		Catalog: NewCatalog(groups.Registry, groups.Topics.Catalog()),
		groups:  groups, reg: groups.Registry, topics: groups.Topics, logger: groups.Logger,
	}
	c.gone = c.topics.Forget
	c.kept = func(topicName string, why error) {
		c.logger.Warn("a topic that goes by the name of the subscription is not its own, and stays as it is", "topic", topicName, "error", why)
	}
	c.found = func(d *Document) {
		c.logger.Warn("the registry went back: the log has journals of the subscription that the registry does not know; it goes on with those, and repeats what was done since; look at its pauses and limits", "subscription", d.Name, "set", d.Set().ID)
	}
	return c
}

// Ensure makes a subscription unless it exists. An existing one keeps its policy, and each difference from
// what was asked for is logged as a warning. An interrupted deletion is finished first.
func (c *Subscriptions) Ensure(ctx context.Context, want Document) (*Document, error) {
	for {
		d, err := c.Catalog.Ensure(ctx, want)
		if err == nil {
			if differ := d.Differences(want); len(differ) > 0 {
				c.logger.Warn("the subscription was there already, with other settings, which stay as they are; \"ringfence subscription alter\" changes them", "subscription", want.Name, "it_has", differ)
			}
		}
		if !errors.Is(err, ErrDeleting) {
			return d, err
		}
		if err := c.finishDeletion(ctx, want.Name); err != nil {
			return nil, err
		}
	}
}

// Options configure a member of a subscription.
type Options struct {
	Life           string // of the subscription that is meant; "": any of that name
	Member         string
	Concurrency    int
	DrainTimeout   time.Duration
	SessionTTL     time.Duration
	HandlerTimeout time.Duration
	OrderBy        func(key []byte) []byte                              // what records are ordered by; nil: their key
	Filter         func(topic string, r *dispatch.Record) (bool, error) // besides that of the definition; nil: none
	Target         *shard.Limiter                                       // limits of the endpoint; nil: it has none of its own
	Events         group.Events
	Failed         func(dispatch.Failure) // gets each failure; it must not block. nil: nothing does
}

// orderBy returns what the records of a subscription are ordered by. Only as much of the function's result
// counts as journals hold: a longer one makes more records wait for each other than have to.
func (o *Options) orderBy(d *Document) func(key []byte) []byte {
	switch d.Order {
	case None:
		return func([]byte) []byte { return nil }
	case ByFunction:
		return func(key []byte) []byte {
			by := o.OrderBy(key)
			return by[:min(len(by), core.MaxOrderingKey)]
		}
	default:
		return nil
	}
}

// orders reports whether a member can deliver in the order of d.
func (o *Options) orders(d *Document) error {
	switch {
	case d.Order == ByFunction && o.OrderBy == nil:
		return fmt.Errorf("subscription %q is ordered by a function of the key, which only a handler in Go can have; expected SubscribeOptions.OrderBy: %w", d.Name, fault.Invalid)
	case d.Order != ByFunction && o.OrderBy != nil:
		return fmt.Errorf("subscription %q has the order %q; expected one that was made with the order %q, or no SubscribeOptions.OrderBy: %w", d.Name, d.Order, ByFunction, fault.Invalid)
	}
	return nil
}

// Deliver runs a member of a subscription until ctx ends; then it drains and returns nil. It blocks, and
// joins all that it started. Errors are those of consumer.Groups.Consume, and fault.NotFound when the
// subscription is unknown or is deleted.
func (c *Subscriptions) Deliver(ctx context.Context, name string, h consumer.Handlers, opts Options) error {
	d, err := c.Get(ctx, name)
	if err == nil && opts.Life != "" && d.Life() != opts.Life {
		err = fmt.Errorf("subscription %q is another one by now: %w", name, fault.NotFound)
	}
	if err == nil {
		err = errors.Join(opts.orders(d), c.CheckTopic(ctx, d))
	}
	if err == nil {
		if _, err = c.journals(ctx, name); errors.Is(err, fault.NotFound) {
			d, err = c.bring(ctx, d)
		}
	}
	if err != nil {
		return consumer.UnlessEnded(ctx, err)
	}
	m := newSubscriber(c, d, h, opts)
	defer m.teller.Close()
	defer m.limits.End()
	return c.whileItIsThere(ctx, d, m.heard, m.run)
}

// whileItIsThere runs a member until its subscription is deleted: then it drains, and that is the error.
// seen gets the definition as it is stored.
func (c *Subscriptions) whileItIsThere(ctx context.Context, d *Document, seen func(*Document), member func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	followed, last := make(chan error, 1), d
	go func() { // joined below
		gone := c.Follow(running, d, c.logger, func(now *Document) {
			last = now
			seen(now)
		})
		stop()
		followed <- gone
	}()
	err := member(running)
	stop()
	gone := <-followed
	if gone == nil {
		return err
	}
	if errors.Is(gone, fault.NotFound) {
		for _, set := range last.All() {
			c.leaveDeleted(ctx, set)
		}
	}
	return gone
}

// journals opens the internal topics of a subscription.
func (c *Subscriptions) journals(ctx context.Context, name string) (*journals, error) {
	d, err := c.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if was, closing := d.Closing(); closing {
		d = d.As(was) // until the shards of the next set have taken over all that is parked
	}
	return c.journalsOf(ctx, d)
}
