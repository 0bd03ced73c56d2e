package ringfence

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/subscription"
)

// Handler processes one message. nil: it is done. An error: it is handed over again, in order,
// after a backoff; only later messages of its key wait for it. A panic counts as an error and is
// logged with its stack. ctx is cancelled the moment the ownership of the partition is lost:
// return then, whatever is written afterwards is refused. m and its bytes may be kept. A handler whose work
// goes on after it has returned answers later, see Message.Later.
type Handler func(ctx context.Context, m *Message) error

// From says where a group begins in a partition that it has no checkpoint of.
type From = api.From

// Where to start.
const (
	Earliest From = api.Earliest // the oldest record that is kept
	Latest   From = api.Latest   // records produced from now on
)

// Retry says when a record that failed is tried again.
type Retry struct {
	Initial  time.Duration // pause after the first failure; pauses double, each shortened at random by up to a half
	Max      time.Duration // the longest pause
	Attempts int           // after so many a record is given up
}

// ConsumeOptions are the options of Consume; the zero value of each field is its default.
type ConsumeOptions struct {
	Member      string // ID in the group; default host-pid-random. The newest start of an ID fences the others.
	Incarnation string // of this start, unique for ever; default random
	From        From   // default Earliest

	Concurrency      int           // handlers at once in one partition, each on another key; default 16, of ConsumeBatch 1
	BatchSize        int           // of ConsumeBatch: messages in a call; default 100
	BatchWait        time.Duration // of ConsumeBatch: how long a message waits for others; default 0, see SubscribeBatch
	MaxInFlight      int           // records handed out or waiting in one partition; default 8192
	MaxInFlightBytes int           // their bytes; default 16 MiB
	CommitInterval   time.Duration // between two checkpoints; default 100 ms
	DrainTimeout     time.Duration // for running handlers when a partition moves or Consume ends; default 10 s
	SessionTTL       time.Duration // a member that is not heard of for so long is dead; default 5 s, on etcd 2 s
	HandlerTimeout   time.Duration // a handler that runs longer gives its partition up; default 0: never
	Retry            Retry         // default 100 ms, doubling to 30 s; a record is tried until it succeeds, so Attempts stays 0

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
	// Failed gets each failed attempt. Several goroutines call it, and it must not block. Failures are logged as warnings
	// too, many of a kind in one line.
	Failed func(Failure)

	// Transactional: the handler commits the checkpoint of each message itself, in a transaction of
	// its own that holds the effects too, by Message.CommitIn; they happen exactly once. The
	// registry must be postgres:, mysql: or sqlite:, and the effects be in the same database.
	Transactional bool
}

// Events tell what happens to a member and its partitions. A unit is a partition, or a shard of a subscription. Each
// field may be nil.
type Events struct {
	Joined     func(incarnation string)
	Assigned   func(unit int, epoch int64, from, why string) // from: the member that had it; "": none, or unknown
	Revoked    func(unit int, epoch int64, why string)       // it is being drained or stopped here
	HandedOver func(unit int, epoch int64, to, why string)   // it was given away; epoch is the new owner's; to "": to no member
	Fenced     func(unit int, epoch int64, why string)       // it was taken away, or a seek began a new epoch
	Committed  func(unit int, epoch int64)
	Paused     func(why string) // nothing runs until there is a new session
	Trouble    func(unit int, what string, err error)
}

// Failure is an attempt at a record that failed, and what becomes of the record; or of all records, when Offset is -1.
type Failure struct {
	Outcome   Outcome
	Topic     string
	Storage   int // index of the storage topic
	Partition int
	Offset    int64
	Key       []byte // nil: none
	Attempt   int    // that failed, from 1
	Err       error  // of the handler, or the answer of an endpoint
}

// Outcome is what becomes of a record after a failure.
type Outcome = dispatch.Outcome

// The outcomes. Consume has the first only.
const (
	TriedAgain Outcome = dispatch.TriedAgain
	Parked     Outcome = dispatch.Parked     // it waits in the journal of a subscription, and its key behind it
	DeadLetter Outcome = dispatch.DeadLetter // it was given up, and is kept
	Dropped    Outcome = dispatch.Dropped    // it was given up, and is gone

	// Of all records of a subscription in this process, with Offset -1.
	HeldBack Outcome = dispatch.HeldBack // what they go to does not work: no attempt counts until there is an answer
	GoesOn   Outcome = dispatch.GoesOn   // there was one; Err is nil
	Paused   Outcome = dispatch.Paused   // an answer of the endpoint has paused the subscription
)

// Consume shares the partitions of a topic with the other members of a group and calls h for
// each record, until ctx ends: then it drains, hands its partitions over and returns nil. It
// blocks, and joins all that it started.
//
// A topic of several storage topics has the partitions of all of them, and more members can share
// the work as it grows. A partition starts when those of the storage topic before that can hold
// earlier records of its keys are finished, by any member: the order of each key holds.
//
// A partition with damaged or trimmed records below the next one stops there, loudly, and is
// tried again every few seconds: nothing is skipped until a seek. The others go on.
//
// Errors: ErrInvalid with every fault of opts; ErrNotFound for an unknown topic, or when the group
// is deleted; ErrExists for a group that consumes another topic; ErrFenced when the same member
// ID was started elsewhere; ErrConflict when the topic was moved to another log. It is ErrNotFound
// too when the topic is deleted and made anew meanwhile: call it again for that one. A store that does not answer is no error: Consume waits for it.
func (c *Client) Consume(ctx context.Context, topicName, groupName string, h Handler, opts *ConsumeOptions) error {
	o := orDefault(opts)
	if err := unasked("Consume", o.BatchSize, o.BatchWait); err != nil {
		return err
	}
	return c.consume(ctx, topicName, groupName, handlers(h, o.Transactional), &o)
}

func (c *Client) consume(ctx context.Context, topicName, groupName string, h consumer.Handlers, o *ConsumeOptions) error {
	if err := subscription.CheckGroupName(groupName); err != nil {
		return err
	}
	if o.Retry.Attempts != 0 {
		return fmt.Errorf("group %q: Retry.Attempts is %d; expected 0, as Consume tries a record until it succeeds (a subscription gives it up): %w", groupName, o.Retry.Attempts, ErrInvalid)
	}
	return c.groups.Consume(ctx, consumer.Member{
		Topic: topicName, Handlers: h, From: consumer.From(o.From), Assignor: o.Assignor, Transactional: o.Transactional, Failed: failed(o.Failed),
		Group: group.Config{
			Group: groupName, Member: o.Member, Incarnation: o.Incarnation,
			Weight: o.Weight, Zone: o.Zone, Zones: o.PartitionZones, Static: o.Static, RestartWindow: o.RestartWindow,
			SessionTTL: o.SessionTTL, DrainTimeout: o.DrainTimeout, CommitInterval: o.CommitInterval,
			ProgressTimeout: o.HandlerTimeout, Events: group.Events(o.Events),
		},
		Engine: dispatch.Config{
			Concurrency: o.Concurrency, MaxInFlight: o.MaxInFlight, MaxBytes: int64(o.MaxInFlightBytes),
			Retry:           dispatch.Retry{Initial: o.Retry.Initial, Max: o.Retry.Max},
			ProgressTimeout: o.HandlerTimeout, DrainTimeout: o.DrainTimeout,
		},
	})
}

// handlers makes messages of the records of a unit.
func handlers(h Handler, transactional bool) consumer.Handlers {
	if h == nil {
		return nil
	}
	return func(topicName string, g *protocol.Group, u *group.Unit) dispatch.Handler {
		epoch := u.Epoch()
		var messages consumer.Slab[Message]
		return func(ctx context.Context, r *dispatch.Record) error {
			m := messages.Take()
			m.handedTo(topicName, epoch, r)
			if !transactional {
				return m.handle(ctx, h, r)
			}
			commit := consumer.NewCommitment(g, u, r)
			m.answers().commit = commit
			err := m.handle(ctx, h, r)
			if err == nil && r.Late() {
				r.Then(commit.Outcome)
				return nil
			}
			return commit.Outcome(err)
		}
	}
}

// handle calls a handler, which may leave an answer with the record that it is to give later.
func (m *Message) handle(ctx context.Context, h Handler, r *dispatch.Record) error {
	m.record = r
	defer func() { m.record = nil }()
	return h(ctx, m)
}

// failed passes failures on; nil: nothing wants them.
func failed(f func(Failure)) func(dispatch.Failure) {
	if f == nil {
		return nil
	}
	return func(d dispatch.Failure) { f(Failure(d)) }
}
