package ringfence

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Order says what a subscription delivers in order.
type Order = subscription.Order

// The orders. It can't be changed later.
const (
	OrderByKey      Order = subscription.ByKey      // the records of a key (default)
	OrderByFunction Order = subscription.ByFunction // those for whose keys SubscribeOptions.OrderBy returns the same
	OrderNone       Order = subscription.None       // nothing: a failing record holds back none
)

// DeadLetterPolicy says what becomes of a record that is given up.
type DeadLetterPolicy = subscription.DeadLetters

// The policies.
const (
	BlockKey DeadLetterPolicy = subscription.Block // a dead letter; its key waits until somebody decides (default)
	SkipIt   DeadLetterPolicy = subscription.Skip  // a dead letter; its key goes on without it
	DropIt   DeadLetterPolicy = subscription.Drop  // it is gone
)

// HeaderNotBefore is the header of a record that a subscription delivers later: not before that time, in RFC 3339 or
// in Unix milliseconds, within a year. Its key waits with it, and nothing else; with another value it becomes a dead
// letter.
const HeaderNotBefore = shard.NotBefore

// SubscriptionConfig is what a subscription is made with. Only Topic is required.
type SubscriptionConfig struct {
	Topic       string
	Order       Order            // default OrderByKey
	Shards      int              // that share the partitions of the topic; default one for each, see Client.Reshard
	From        From             // where it begins; default Earliest
	Retry       Retry            // default 1 s, doubling to 1 min, and 10 attempts; at most a year and 2^20 attempts
	Hold        time.Duration    // how long a failing record is held before it is parked; default 5 s, negative: not at all
	DeadLetters DeadLetterPolicy // default BlockKey
	Endpoint    SubscriptionEndpoint
	// Filter is an expression such as `headers.region == "eu" && value.amount > 100`; a record that it is false
	// of is finished undelivered, and one that it can't be computed for is given up. Its language is a part of
	// that of expr-lang.org, see the guide; key, headers, value (of JSON), topic, partition, offset and timestamp
	// are what it sees. Default: everything is delivered.
	Filter string
	// Rate and Concurrency bound what all members deliver together: attempts that begin in a second, and that
	// are under way at the same time, of which each shard has one at least. Default: no bound. See Client.Limit.
	Rate, Concurrency int
}

// SubscriptionEndpoint is where a subscription is delivered to by HTTP, see package push. With no URL a
// handler or a command delivers it.
type SubscriptionEndpoint struct {
	URL     string        // http or https, without a user and a password
	Timeout time.Duration // of one attempt; default 30 s
	// SecretFile is the absolute path of a file with secrets, which requests are signed with. The path is
	// stored and not what is in it: each host that delivers has the file.
	SecretFile string
	// CloudEvents: each request is a CloudEvent 1.0 in binary mode. Default: where who delivers says so.
	CloudEvents bool
}

// SubscriptionInfo describes a subscription.
type SubscriptionInfo = subscription.Document

// EnsureSubscription makes a subscription unless it exists: then it keeps its policy, and what was asked
// for and is not so is logged as a warning. ErrNotFound for an unknown topic; ErrExists when the name is
// taken by one of another topic or order. A deletion that was interrupted is finished first.
func (c *Client) EnsureSubscription(ctx context.Context, name string, cfg SubscriptionConfig) (*SubscriptionInfo, error) {
	return c.subs.Ensure(ctx, cfg.definition(name))
}

// Validate reports every fault of a configuration for a subscription of the name, as EnsureSubscription
// would.
func (cfg SubscriptionConfig) Validate(name string) error { return cfg.definition(name).Validate() }

func (cfg SubscriptionConfig) definition(name string) subscription.Document {
	return subscription.Document{
		Name: name, Topic: cfg.Topic, Order: cfg.Order, From: string(cfg.From), DeadLetters: cfg.DeadLetters, Filter: cfg.Filter,
		Retry:    subscription.NewRetry(cfg.Retry.Initial, cfg.Retry.Max, cfg.Hold, cfg.Retry.Attempts),
		Endpoint: subscription.NewEndpoint(cfg.Endpoint.URL, cfg.Endpoint.Timeout, cfg.Endpoint.SecretFile, cfg.Endpoint.CloudEvents),
		Sets:     subscription.OfShards(cfg.Shards),
		Limits:   subscription.LimitsOf(cfg.Rate, cfg.Concurrency),
	}
}

// Subscriptions lists the subscriptions, sorted by name. One whose definition can't be read says so in
// Damaged, and has only a name.
func (c *Client) Subscriptions(ctx context.Context) ([]*SubscriptionInfo, error) {
	return c.subs.List(ctx)
}

// DescribeSubscription describes one; ErrNotFound when there is none.
func (c *Client) DescribeSubscription(ctx context.Context, name string) (*SubscriptionInfo, error) {
	return c.subs.Get(ctx, name)
}

// CheckSubscription says what of its topic keeps a subscription from being delivered; nil: nothing does.
// ErrConflict for a topic that is a part of another subscription, or moved away; ErrNotFound for none.
func (c *Client) CheckSubscription(ctx context.Context, name string) error {
	d, err := c.subs.Get(ctx, name)
	if err != nil {
		return err
	}
	return c.subs.CheckTopic(ctx, d)
}

// SubscribeOptions are the options of Subscribe; the zero value of each field is its default.
type SubscribeOptions struct {
	// Life of the subscription that is meant, see SubscriptionInfo: one that was made anew under its name is not
	// delivered, which is ErrNotFound. "": whichever has the name.
	Life           string
	Member         string        // ID; default host-pid-random. The newest start of an ID fences the others.
	Concurrency    int           // handlers at once in one shard, each on another key; default 16, of SubscribeBatch 1
	BatchSize      int           // of SubscribeBatch: messages in a call at most; default 100
	BatchWait      time.Duration // of SubscribeBatch: how long a message waits for others; default 0, at most 1 min
	DrainTimeout   time.Duration // for running handlers when a shard moves or Subscribe ends; default 10 s
	SessionTTL     time.Duration // a member that is not heard of for so long is dead; default 5 s, on etcd 2 s
	HandlerTimeout time.Duration // a handler that runs longer gives its shard up; default 0: never
	// OrderBy is what the records of a subscription with OrderByFunction are ordered by: a function of their key
	// alone, the same in all members, for good. What lies in two partitions is not ordered, so keys for which it
	// returns the same have to be produced to the same one (ProduceOptions.Partition). A record for which it
	// returns nil is ordered with no other. The first 1,024 bytes of a result count. It must not panic. Why asks
	// for what it returns.
	OrderBy func(key []byte) []byte
	// Filter passes over the records that it returns false for, as the filter of the definition does, which comes
	// first; with an error the record becomes a dead letter. All members have the same function.
	Filter func(m *Message) (bool, error)
	// Target bounds what all subscriptions together deliver to one endpoint, of all who have the same for it; nil:
	// nothing does. push.Serve has its own.
	Target *shard.Limiter
	Events Events // they must not block
}

func (o *SubscribeOptions) delivery() subscription.Options {
	out := subscription.Options{
		Life: o.Life, Member: o.Member, Concurrency: o.Concurrency, DrainTimeout: o.DrainTimeout, SessionTTL: o.SessionTTL,
		HandlerTimeout: o.HandlerTimeout, OrderBy: o.OrderBy, Target: o.Target, Events: o.Events,
	}
	if o.Filter != nil {
		out.Filter = func(topicName string, r *dispatch.Record) (bool, error) {
			var m Message
			m.of(topicName, 0, r)
			return o.Filter(&m)
		}
	}
	return out
}

// Subscribe shares the shards of a subscription with the other members and calls h for each record,
// those of a key in order, until ctx ends: then it drains and returns nil. It blocks, and joins all that
// it started.
//
// A record whose handler fails is tried again. For a while it is held, and only later records of its key
// wait; then it is parked, with those, in a topic of the subscription, and the pauses grow. Once it has
// used up its attempts, or its error is Permanent, it becomes a dead letter. What is parked survives any
// crash, and its order does.
//
// Errors are those of Consume; ErrNotFound too for an unknown subscription, and when it is deleted.
func (c *Client) Subscribe(ctx context.Context, name string, h Handler, opts *SubscribeOptions) error {
	o := orDefault(opts)
	if err := unasked("Subscribe", o.BatchSize, o.BatchWait); err != nil {
		return err
	}
	return c.subs.Deliver(ctx, name, handlers(h, false), (&o).delivery())
}

// DeleteSubscriptionOptions are the options of DeleteSubscription.
type DeleteSubscriptionOptions struct {
	// Force deletes also while members run, which end with ErrNotFound, and while records are parked
	// or dead letters: those are not delivered any more.
	Force bool
	// DryRun only says whether it would be refused.
	DryRun bool
}

// DeleteSubscription removes a subscription, its progress and its internal topics, for good; its topic
// stays. Without Force it is ErrConflict while it has live members, and while something is parked.
//
// It waits until members that still run have ended. Once it has begun, the subscription is not there
// any more for anybody; when it was interrupted, another call, or EnsureSubscription, finishes it.
func (c *Client) DeleteSubscription(ctx context.Context, name string, opts *DeleteSubscriptionOptions) error {
	o := orDefault(opts)
	return c.subs.Delete(ctx, name, o.Force, o.DryRun)
}
