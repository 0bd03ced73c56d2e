package ringfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Handler processes one message. nil: it is done. An error: it is handed over again, in order,
// after a backoff; only later messages of its key wait for it. A panic counts as an error and is
// logged with its stack. ctx is cancelled the moment the ownership of the partition is lost:
// return then, whatever is written afterwards is refused. m and its bytes may be kept.
type Handler func(ctx context.Context, m *Message) error

// From says where a group starts in a partition that it has no checkpoint of.
type From string

// Where to start.
const (
	Earliest From = "earliest" // the oldest record that is kept
	Latest   From = "latest"   // records produced from now on
)

// ConsumeOptions are the options of Consume; the zero value of each field is its default.
type ConsumeOptions struct {
	Member      string // ID in the group; default host-pid-random. The newest start of an ID fences the others.
	Incarnation string // of this start, unique for ever; default random
	From        From   // default Earliest

	Concurrency      int           // handlers at once in one partition, each on another key; default 16
	MaxInFlight      int           // records handed out or waiting in one partition; default 8192
	MaxInFlightBytes int           // their bytes; default 16 MiB
	CommitInterval   time.Duration // between two checkpoints; default 100 ms
	DrainTimeout     time.Duration // for running handlers when a partition moves or Consume ends; default 10 s
	SessionTTL       time.Duration // a member that is not heard of for so long is dead; default 5 s, on etcd 2 s
	HandlerTimeout   time.Duration // a handler that runs longer gives its partition up; default 0: never
	RetryInitial     time.Duration // backoff after the first failure of a record; default 100 ms
	RetryMax         time.Duration // and at most; default 30 s

	Assignor string // "sticky" (default), "fair" or "roundrobin"; must be the same for all members
	Weight   int    // share of the partitions relative to the others; default 1
	Zone     string // where the member runs
	// PartitionZones is, by partition, the zone of the members that own it best ("": any); nil for
	// none. It breaks ties only: balance, and leaving partitions where they are, go first. It must
	// be the same for all members.
	PartitionZones []string
	Static         bool          // keep its partitions through a restart that takes at most RestartWindow
	RestartWindow  time.Duration // default 30 s

	// Events tell what happens to this member and its partitions. They must not block.
	Events Events

	// Transactional: the handler commits the checkpoint of each message itself, in a transaction of
	// its own that holds the effects too, by Message.CommitIn; they happen exactly once. The
	// registry must be postgres:, mysql: or sqlite:, and the effects be in the same database.
	Transactional bool
}

// Events tell what happens to a member and its partitions; a unit is a partition.
type Events = group.Events

// Consume shares the partitions of a topic with the other members of a group and calls h for
// each record, until ctx ends: then it drains, hands its partitions over and returns nil. It
// blocks, and joins all that it started.
//
// A topic of several storage topics has the partitions of all of them, and more members can share
// the work as it grows. A partition starts when those of the storage topic before that can hold
// earlier records of its keys are finished, whoever processes them: the order of each key holds.
//
// A partition with damaged or trimmed records below the next one stops there, loudly, and is
// tried again every few seconds: nothing is skipped until somebody seeks. The others go on.
//
// Errors: ErrInvalid with every fault of opts; ErrNotFound for an unknown topic, or when the group
// is deleted; ErrExists for a group that consumes another topic; ErrFenced when the same member
// ID was started elsewhere; ErrConflict when the topic was moved to another log. It is ErrNotFound
// too when the topic is deleted and made anew meanwhile: call it again for that one. A store that does not answer is no error: Consume waits for it.
func (c *Client) Consume(ctx context.Context, topicName, groupName string, h Handler, opts *ConsumeOptions) error {
	if opts == nil {
		opts = &ConsumeOptions{}
	}
	if err := notForSubscriptions(groupName); err != nil {
		return err
	}
	return c.consume(ctx, topicName, groupName, h, opts, consumer.Layout{}, nil)
}

// consume is Consume, and the delivery of a subscription when it is told what is around its engines.
func (c *Client) consume(ctx context.Context, topicName, groupName string, h Handler, opts *ConsumeOptions, layout consumer.Layout, around consumer.Around) error {
	if h == nil {
		return fmt.Errorf("consume topic %q: no handler: %w", topicName, ErrInvalid)
	}
	// The handle may be older than a switch. A registry that does not answer is waited for later.
	t, err := c.topics.Current(ctx, topicName)
	if err != nil && (t == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict)) {
		return err
	}
	if err := t.Document().CheckHere(); err != nil {
		return err
	}
	cfg, err := c.groupConfig(t.Document(), groupName, opts, layout)
	if err != nil {
		return err
	}
	if opts.Transactional && !c.reg.Transactional() {
		return fmt.Errorf("consume topic %q: Transactional needs a registry in PostgreSQL, MariaDB or SQLite: %w", topicName, ErrInvalid)
	}
	g, err := c.reg.Group(groupName)
	if err != nil {
		return err
	}
	return consumer.Run(ctx, consumer.Config{
		Group: cfg, Topic: t, Catalog: c.catalog, Log: c.log,
		Engine: dispatch.Config{
			Concurrency: opts.Concurrency, MaxInFlight: opts.MaxInFlight, MaxBytes: int64(opts.MaxInFlightBytes),
			Retry:           dispatch.Retry{Initial: opts.RetryInitial, Max: opts.RetryMax},
			ProgressTimeout: opts.HandlerTimeout, DrainTimeout: opts.DrainTimeout,
		},
		Handler: func(u *group.Unit) dispatch.Handler { return deliver(topicName, g, u, h, opts.Transactional) },
		Latest:  opts.From == Latest, Transactional: opts.Transactional, Logger: c.logger, Layout: layout, Around: around,
	})
}

// deliver makes messages of the records of a unit.
func deliver(topicName string, g *registry.Group, u *group.Unit, h Handler, transactional bool) dispatch.Handler {
	epoch := u.Epoch()
	if transactional {
		h = demandCommit(h)
	}
	var slabs sync.Pool
	return func(ctx context.Context, r *dispatch.Record) error {
		slab, _ := slabs.Get().(*[]Message)
		if slab == nil || len(*slab) == 0 {
			fresh := make([]Message, slabMessages)
			slab = &fresh
		}
		m := &(*slab)[0]
		*slab = (*slab)[1:]
		slabs.Put(slab)
		*m = Message{
			Topic: topicName, Storage: r.Storage, Partition: r.Partition, Offset: r.Offset, Epoch: epoch, Attempt: r.Attempt,
			Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.UnixMilli(r.Timestamp),
		}
		if transactional {
			m.commit = commitmentOf(g, u, r)
		}
		return h(ctx, m)
	}
}

// slabMessages is how many messages are allocated at once. A handler that keeps one message keeps
// the memory of its slab, some KiB, beside the bytes it was read with.
const slabMessages = 32

func (c *Client) groupConfig(doc *topic.Document, groupName string, o *ConsumeOptions, layout consumer.Layout) (group.Config, error) {
	cfg := group.Config{
		Registry: c.reg, Group: groupName,
		Member: o.Member, Incarnation: o.Incarnation, Weight: o.Weight, Zone: o.Zone, Zones: o.PartitionZones,
		Static: o.Static, RestartWindow: o.RestartWindow,
		SessionTTL: o.SessionTTL, DrainTimeout: o.DrainTimeout, CommitInterval: o.CommitInterval,
		ProgressTimeout: o.HandlerTimeout, WorkersCommit: o.Transactional, Logger: c.logger, Events: o.Events,
	}
	layout.LayOut(&cfg, doc)
	if cfg.Member == "" {
		cfg.Member = fmt.Sprintf("%s-%s", whoami(), strings.ToLower(rand.Text()[:6]))
	}
	var err error
	if o.Assignor != "" {
		cfg.Assignor, err = assign.ByName(o.Assignor)
	}
	return cfg, errors.Join(o.validate(), err, cfg.Validate())
}

// validate reports every fault of the options that the group does not check itself.
func (o *ConsumeOptions) validate() error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("consume: %s: %w", fmt.Sprintf(format, args...), ErrInvalid))
		}
	}
	demand(o.From == "" || o.From == Earliest || o.From == Latest, "from %q; expected %q or %q", o.From, Earliest, Latest)
	demand(o.Concurrency >= 0 && o.MaxInFlight >= 0 && o.MaxInFlightBytes >= 0, "a negative Concurrency, MaxInFlight or MaxInFlightBytes")
	demand(o.RetryInitial >= 0 && o.RetryMax >= 0, "a negative RetryInitial or RetryMax")
	return errors.Join(errs...)
}
