package ringfence

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/shard"
)

// HeaderNotBefore is the header of a record that a subscription delivers later: not before that time, in RFC 3339 or
// in Unix milliseconds, within a year. Its key waits with it, and nothing else; with another value it becomes a dead
// letter.
const HeaderNotBefore = shard.NotBefore

// HeaderEdited is the header of a record whose value an edit has changed: the ID of the dead letter that it replaces.
const HeaderEdited = subscription.Edited

// SubscribeOptions are the options of Subscribe; the zero value of each field is its default.
type SubscribeOptions struct {
	// ID of the subscription that is meant, see api.Subscription: one of the name with another ID is ErrNotFound. "": any.
	ID             string
	Member         string        // ID; default host-pid-random. The newest start of an ID fences the others.
	Concurrency    int           // handlers at once in one shard, each on another key; default 16, of SubscribeBatch 1
	BatchSize      int           // of SubscribeBatch: messages in a call at most; default 100
	BatchWait      time.Duration // of SubscribeBatch: how long a message waits for others; default 0, at most 1 min
	DrainTimeout   time.Duration // for running handlers when a shard moves or Subscribe ends; default 10 s
	SessionTTL     time.Duration // a member that is not heard of for so long is dead; default 5 s, on etcd 2 s
	HandlerTimeout time.Duration // a handler that runs longer gives its shard up; default 0: never
	// OrderBy is what the records of a subscription with api.OrderByFunction are ordered by: a function of their key
	// alone, the same in all members, for good. What lies in two partitions is not ordered, so keys for which it
	// returns the same have to be produced to the same one (ProduceOptions.Partition). A record for which it
	// returns nil is ordered with no other. The first 1,024 bytes of a result count. It must not panic. Why asks
	// for what it returns.
	OrderBy func(key []byte) []byte
	// Filter passes over the records that it returns false for, as the filter of the definition does, which comes
	// first; with an error the record becomes a dead letter. All members have the same function.
	Filter func(m *Message) (bool, error)
	// Target bounds what all subscriptions with the same Target deliver to one endpoint together; nil: nothing does.
	// push.Serve has its own.
	Target *shard.Limiter
	Events Events // they must not block
	// Failed gets each failed attempt, each record that is parked, given up or dropped, and each time that deliveries are
	// held back, go on or are paused by an answer. Several goroutines call it, and it must not block. All but GoesOn are
	// logged as warnings too, many of a kind in one line.
	Failed func(Failure)
}

func (o *SubscribeOptions) delivery() subscription.Options {
	out := subscription.Options{
		Life: o.ID, Member: o.Member, Concurrency: o.Concurrency, DrainTimeout: o.DrainTimeout, SessionTTL: o.SessionTTL,
		HandlerTimeout: o.HandlerTimeout, OrderBy: o.OrderBy, Target: o.Target, Events: group.Events(o.Events), Failed: failed(o.Failed),
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
