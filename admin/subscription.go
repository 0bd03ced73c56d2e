package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
)

// SubscriptionConfig is what a subscription is made with. Only Topic is required.
type SubscriptionConfig struct {
	Topic       string
	Order       api.Order     // default OrderByKey
	Shards      int           // that share the partitions of the topic; default one for each, see ReshardSubscription
	From        api.From      // where it begins; default Earliest
	Retry       Retry         // default 1 s, doubling to 1 min, and 10 attempts; at most a year and 2^20 attempts
	Hold        time.Duration // how long a failing record is held in memory before it is parked; default 5 s, negative: not at all
	DeadLetters api.DeadLetterPolicy
	Endpoint    EndpointConfig
	// Filter is an expression such as `headers.region == "eu" && value.amount > 100`. A record that it is false of is
	// finished undelivered, and one that it can't be computed for is given up. Its language is a part of that of
	// expr-lang.org; it sees key, headers, value (of JSON), topic, partition, offset and timestamp. "": everything is delivered.
	Filter string
	// Rate and Concurrency bound the attempts of all members together: those that begin in a second, and those under way at
	// the same time, of which each shard has one at least. 0: no bound.
	Rate, Concurrency int
}

// Retry says when a record that failed is tried again.
type Retry struct {
	Initial  time.Duration // pause after the first failure; pauses double, each shortened at random by up to a half
	Max      time.Duration // the longest pause
	Attempts int           // after so many a record is given up
	AfterMax time.Duration // the longest pause that an answer (Retry-After) may ask for; default Max, or an hour where that is more
}

// EndpointConfig is where a subscription is delivered to by HTTP, see package push. Without a URL a handler or a command
// delivers it.
type EndpointConfig struct {
	URL     string        // http or https, without a user and a password
	Timeout time.Duration // of one attempt; default 30 s
	// SecretFile is the absolute path of a file with the secrets that requests are signed with. The path is stored, its
	// contents are not: each host that delivers has the file.
	SecretFile string
	// CloudEvents sends each request as a CloudEvent 1.0 in binary mode. Default: as the daemon is set.
	CloudEvents bool
	// GiveUpFirst gives records up that the endpoint refuses with 401, 403 or 404 also before it has taken any. Default: that
	// pauses the subscription, as the address or the secret may be wrong rather than each record.
	GiveUpFirst bool
}

// Validate reports every fault of a configuration for a subscription of the name.
func (c SubscriptionConfig) Validate(name string) error { return c.definition(name).Validate() }

func (c SubscriptionConfig) definition(name string) subscription.Document {
	return subscription.Document{
		Name: name, Topic: c.Topic, Order: subscription.Order(c.Order), From: string(c.From), DeadLetters: subscription.DeadLetters(c.DeadLetters), Filter: c.Filter,
		Retry:    subscription.NewRetry(c.Retry.Initial, c.Retry.Max, c.Hold, c.Retry.AfterMax, c.Retry.Attempts),
		Endpoint: subscription.NewEndpoint(c.Endpoint.URL, c.Endpoint.Timeout, c.Endpoint.SecretFile, c.Endpoint.CloudEvents, c.Endpoint.GiveUpFirst),
		Sets:     subscription.OfShards(c.Shards),
		Limits:   subscription.LimitsOf(c.Rate, c.Concurrency),
	}
}

// SubscriptionConfigOf is what the subscription would be made with to be as it is.
func SubscriptionConfigOf(d *api.Subscription) SubscriptionConfig {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	c := SubscriptionConfig{
		Topic: d.Topic, Order: d.Order, Shards: d.Set().Shards, From: d.From, DeadLetters: d.DeadLetters, Filter: d.Filter,
		Retry: Retry{Initial: ms(d.Retry.InitialMS), Max: ms(d.Retry.MaxMS), Attempts: d.Retry.MaxAttempts, AfterMax: ms(d.Retry.AfterMaxMS)},
		Hold:  ms(d.Retry.HoldMS),
	}
	if e := d.Endpoint; e != nil {
		c.Endpoint = EndpointConfig{URL: e.URL, Timeout: ms(e.TimeoutMS), SecretFile: e.SecretFile, CloudEvents: e.CloudEvents, GiveUpFirst: e.GiveUpFirst}
	}
	if l := d.Limits; l != nil {
		c.Rate, c.Concurrency = l.Rate, l.Concurrency
	}
	return c
}

// CreateSubscription makes a subscription unless it exists. An existing one keeps its settings, and a warning is logged about
// those that differ; AlterSubscription changes them. ErrNotFound for an unknown topic; ErrExists when the name is taken by a subscription of another topic or
// order. An interrupted deletion is finished first.
func (c *Client) CreateSubscription(ctx context.Context, name string, cfg SubscriptionConfig) (*api.Subscription, error) {
	return described(c.subs.Ensure(ctx, cfg.definition(name)))
}

// ListSubscriptions lists the subscriptions, sorted by name. One whose definition can't be used says so in Damaged.
func (c *Client) ListSubscriptions(ctx context.Context) ([]*api.Subscription, error) {
	list, err := c.subs.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*api.Subscription, len(list))
	for i, d := range list {
		all[i] = subscriptionOf(d)
	}
	return all, nil
}

// GetSubscription reads the definition of a subscription.
func (c *Client) GetSubscription(ctx context.Context, name string) (*api.Subscription, error) {
	return described(c.subs.Get(ctx, name))
}

// PauseSubscriptionOptions are the options of PauseSubscription.
type PauseSubscriptionOptions struct {
	Reason  string // for people; at most 1 KiB
	By      string // the user, or the thing, that pauses it; default user@host of this process
	ID      string // of the subscription that is meant: one of the name with another ID is ErrNotFound. "": any
	Untaken bool   // only while its endpoint has taken no record
	// ResumedAt makes it depend on no resume since then: it is what Subscription.ResumedAt was. nil: whenever
	ResumedAt *api.Time
}

// PauseSubscription has a subscription deliver nothing until it is resumed. Its members hear of it within a second or so: they
// begin no attempt, end those under way, and keep progress, order and what is parked. Members that start later deliver nothing
// either. A paused subscription keeps its reason.
func (c *Client) PauseSubscription(ctx context.Context, name string, opts *PauseSubscriptionOptions) (*api.Subscription, error) {
	o := orZero(opts)
	p := subscription.Pausing{Reason: o.Reason, By: o.By, Life: o.ID, Untaken: o.Untaken}
	if o.ResumedAt != nil {
		var at int64
		if t := o.ResumedAt.Time(); !t.IsZero() {
			at = t.UnixMilli()
		}
		p.ResumedAt = &at
	}
	return described(c.subs.Pause(ctx, name, p))
}

// NoteTaken notes that the endpoint of a subscription, by its ID and URL, has taken a record: from then on a refusal is about
// its record. Package push calls it.
func (c *Client) NoteTaken(ctx context.Context, name, id, endpoint string) error {
	return c.subs.NoteTaken(ctx, name, id, endpoint)
}

// ResumeSubscription ends a pause: the subscription goes on where it was.
func (c *Client) ResumeSubscription(ctx context.Context, name string) (*api.Subscription, error) {
	return described(c.subs.Resume(ctx, name))
}

// AlterSubscriptionOptions make a change depend on what was seen before it.
type AlterSubscriptionOptions struct {
	ID string // of the subscription that is meant; "": any
}

// AlterSubscription changes a subscription while it is delivered. change gets its configuration as it is and sets fields of it;
// it is called again when another change came between, and its error ends the call. All but Topic, Order, From and Shards can
// be changed. Members follow within a second or so, and lose and repeat nothing: attempts that end from then on are judged by
// the new configuration, and records are filtered by it, those too that are parked. Pauses that have begun last as they were to
// (RetrySubscription ends them), and dead letters stay what they are. Only for another endpoint do members begin anew.
//
// The members divide Rate by the partitions that their shards read, and Concurrency by shards. What one of them does not use of
// its part, no other gets: so a burst is at most a tenth of a second's worth of the rate, or one attempt for each member if that
// is more. While a live member is taken for dead, its part may be used twice.
//
// ErrConflict, with what to do, for what can't be changed; ErrInvalid for a configuration that can't be.
func (c *Client) AlterSubscription(ctx context.Context, name string, change func(*SubscriptionConfig) error, opts *AlterSubscriptionOptions) (*api.Subscription, error) {
	o := orZero(opts)
	return described(c.subs.Alter(ctx, name, func(now subscription.Document) (subscription.Document, error) {
		if o.ID != "" && o.ID != now.Life() {
			return now, fmt.Errorf("subscription %q is another one by now: %w", name, fault.Conflict)
		}
		cfg := SubscriptionConfigOf(subscriptionOf(&now))
		err := change(&cfg)
		return cfg.definition(name), err
	}))
}

// RetrySubscriptionOptions choose among failing records; the zero value chooses all.
type RetrySubscriptionOptions struct {
	IDs []string // of parked records
	Key []byte   // nil: any
}

// RetrySubscription orders that failing records be tried now: their pauses end, and with them the wait for the next look at an
// endpoint that does not work, whatever Retry-After asked for. It returns how many of them are parked; those that members hold in
// memory are tried too, unless IDs are named. Records keep their attempts and their order. Members carry the order out, as soon
// as there are some.
//
// ErrNotFound when an ID is none of a parked record; ErrConflict when it is a dead letter, see RedriveDeadLetters.
func (c *Client) RetrySubscription(ctx context.Context, name string, opts *RetrySubscriptionOptions) (int, error) {
	o := orZero(opts)
	return c.subs.Retry(ctx, name, o.IDs, o.Key)
}

// ReshardSubscriptionOptions are the options of ReshardSubscription.
type ReshardSubscriptionOptions struct {
	DryRun bool // only say what it would do
}

// ReshardSubscription changes how many shards a subscription has, from one for each partition of its topic down to one, while it
// is delivered. Attempts under way end, and the new shards go on with all that is parked, in the order of each key. Nothing is
// delivered again but what a handler does not end within its drain time. Members carry it out, as soon as there are some.
//
// ErrConflict while an earlier change is under way; ErrInvalid for a number that is too high.
func (c *Client) ReshardSubscription(ctx context.Context, name string, shards int, opts *ReshardSubscriptionOptions) (*api.Reshard, error) {
	return c.subs.Reshard(ctx, name, shards, orZero(opts).DryRun)
}

// ResetSubscriptionOptions are the options of ResetSubscription.
type ResetSubscriptionOptions struct {
	Storage    *int  // index of the storage topic to begin in; nil: where the target lies, of an offset the one that is delivered
	Partitions []int // of the storage topic that is delivered; empty: all. The others go on as they were
	DropParked bool  // leave behind what is parked or a dead letter below the new place: it is never delivered
	DryRun     bool  // only say what it would do
}

// ResetSubscription sends a subscription, live or not, back or forward in its topic, each key in its order. What was done from
// there on is delivered again, also what is parked or a dead letter there, as if for the first time. What is parked below stays
// parked, in front of what comes again of its key. Members carry it out, as soon as there are some.
//
// A topic that has grown is followed from the chosen storage topic on through all later ones.
//
// ErrConflict while an earlier reset or reshard is under way; ErrInvalid for an offset or a partition that is not there.
func (c *Client) ResetSubscription(ctx context.Context, name string, to consumer.SeekTarget, opts *ResetSubscriptionOptions) (*api.Reset, error) {
	o := orZero(opts)
	return c.subs.Reset(ctx, name, to, (*subscription.ResetOptions)(&o))
}

// DeleteSubscriptionOptions are the options of DeleteSubscription.
type DeleteSubscriptionOptions struct {
	// Force deletes also while members run, which end with ErrNotFound, and while records are parked or dead letters, which are
	// never delivered then.
	Force  bool
	DryRun bool // only say whether it would be refused
	// ID is that of the subscription that is meant; "": any. One that only the log knows, and that has records there, goes by
	// its ID alone, with Force.
	ID string
}

// DeleteSubscription removes a subscription, its progress and its internal topics, for good; its topic stays. Without Force it is
// ErrConflict while the subscription has live members, and while something is parked.
//
// It waits until members that still run have ended. Once it has begun, the subscription is gone for all processes; an interrupted
// deletion is finished by the next one, or by CreateSubscription.
func (c *Client) DeleteSubscription(ctx context.Context, name string, opts *DeleteSubscriptionOptions) error {
	o := orZero(opts)
	return c.subs.Delete(ctx, name, o.ID, o.Force, o.DryRun)
}

func described(d *subscription.Document, err error) (*api.Subscription, error) {
	if err != nil {
		return nil, err
	}
	return subscriptionOf(d), nil
}

// subscriptionOf describes a definition.
func subscriptionOf(d *subscription.Document) *api.Subscription {
	s := &api.Subscription{
		Name: d.Name, State: d.State, Topic: d.Topic, Order: api.Order(d.Order), From: api.From(d.From), Retry: api.Retry(d.Retry),
		DeadLetters: api.DeadLetterPolicy(d.DeadLetters), Endpoint: (*api.Endpoint)(d.Endpoint), Filter: d.Filter, Limits: (*api.Limits)(d.Limits),
		Sets: []api.ShardSet{}, Created: api.Millis(d.Created), Damaged: d.Damaged, TakenAt: api.Millis(d.TakenAt), ResumedAt: api.Millis(d.ResumedAt),
	}
	if len(d.Sets) > 0 {
		s.ID, s.Decisions = d.Life(), d.DecidedTopic()
	}
	if d.Paused != nil {
		s.State = "paused"
		s.Paused = &api.Pause{Since: api.Millis(d.Paused.Since), Reason: d.Paused.Reason, By: d.Paused.By}
	}
	for _, as := range d.All() {
		set := as.Set()
		s.Sets = append(s.Sets, api.ShardSet{
			Set: set.Set, ID: set.ID, Storage: set.Storage, Shards: set.Shards, State: "", Since: api.Millis(set.Since), PauseMS: set.Pause,
			Group: as.Group(), Journal: as.JournalTopic(), DeadTopic: as.DeadTopic(), Starts: set.Starts, DropParked: set.Shed,
		})
	}
	for i := range s.Sets {
		s.Sets[i].State = d.Sets[i].State
	}
	return s
}
