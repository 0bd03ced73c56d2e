package ringfence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
)

// BatchHandler processes several messages at once, of one shard or partition and each of another key. It
// returns an error for each message, in their order: nil for what is done, and what a Handler returns for what is not.
// Without errors (nil) all are done. Whatever fails is tried again, in order, and holds back its own key; the
// others count as done. A panic, and errors of another number than messages, make all of them fail.
//
// ctx is cancelled the moment the ownership is lost. The messages may be kept, ms may not.
type BatchHandler func(ctx context.Context, ms []*Message) []error

// The bounds of batches.
const (
	defaultBatch = 100
	mostBatched  = 8192 // messages in the calls of a shard, and in the next one
	longestBatch = time.Minute
)

// batching says how messages are gathered: the options of that name.
type batching struct {
	size, atOnce int
	wait         time.Duration
}

// check returns it with its defaults, or what is wrong.
func (b batching) check(what string) (batching, error) {
	b.size, b.atOnce = cmp.Or(b.size, defaultBatch), cmp.Or(b.atOnce, 1)
	var errs []error
	if b.size < 0 || b.atOnce < 0 || b.size > mostBatched || b.atOnce > mostBatched || b.size*(b.atOnce+1) > mostBatched {
		errs = append(errs, fmt.Errorf("%s: a BatchSize of %d with a Concurrency of %d; expected BatchSize × (Concurrency + 1) of at most %d: %w", what, b.size, b.atOnce, mostBatched, ErrInvalid))
	}
	if b.wait < 0 || b.wait > longestBatch {
		errs = append(errs, fmt.Errorf("%s: a BatchWait of %s; expected 0 to %s: %w", what, b.wait, longestBatch, ErrInvalid))
	}
	return b, errors.Join(errs...)
}

// inFlight is how many records the engine of a shard has handled at once: those of the calls, and of the next.
func (b batching) inFlight() int { return b.size * (b.atOnce + 1) }

// unasked says that options of batches were given to what makes none.
func unasked(what string, size int, wait time.Duration) error {
	if size == 0 && wait == 0 {
		return nil
	}
	return fmt.Errorf("%s: BatchSize and BatchWait are for a BatchHandler; expected none of them, or %sBatch: %w", what, what, ErrInvalid)
}

// handlers makes batches of the messages of a unit.
func (b batching) handlers(c *Client, h BatchHandler, calls *consumer.Calls) consumer.Handlers {
	if h == nil {
		return nil
	}
	return func(topicName string, _ *protocol.Group, u *group.Unit) dispatch.Handler {
		epoch := u.Epoch()
		batches := &consumer.Batches[*Message]{
			Call: h, Size: b.size, AtOnce: b.atOnce, Wait: b.wait, Hurry: u.Draining(), Calls: calls, Logger: c.groups.Logger,
		}
		return func(ctx context.Context, r *dispatch.Record) error {
			m := new(Message)
			m.handedTo(topicName, epoch, r)
			batches.Add(ctx, r, m)
			return nil
		}
	}
}

// SubscribeBatch is Subscribe for a handler that takes several messages at once: up to BatchSize of a shard. A call begins as
// soon as there is a message and no more than Concurrency calls of the shard are under way, or BatchWait later
// if that is set: so one message alone is not kept waiting, and what comes while a call runs goes together.
//
// No two messages of a batch have the same key: the next one of a key comes when the one before it is done.
// What is parked, and is due again, is in batches with the rest. Each message of a batch counts for itself:
// its attempts, the rate and the concurrency of the subscription, and its HandlerTimeout, which begins when it waits for its batch.
func (c *Client) SubscribeBatch(ctx context.Context, name string, h BatchHandler, opts *SubscribeOptions) error {
	o := orDefault(opts)
	b, err := batching{o.BatchSize, o.Concurrency, o.BatchWait}.check("SubscribeBatch")
	if err != nil {
		return err
	}
	o.Concurrency = b.inFlight()
	var calls consumer.Calls
	defer calls.Join()
	return c.subs.Deliver(ctx, name, b.handlers(c, h, &calls), (&o).delivery())
}

// ConsumeBatch is Consume for a handler that takes several messages at once, as SubscribeBatch is Subscribe: up to
// BatchSize of a partition, no two of the same key. It can't be Transactional.
func (c *Client) ConsumeBatch(ctx context.Context, topicName, groupName string, h BatchHandler, opts *ConsumeOptions) error {
	o := orDefault(opts)
	b, err := batching{o.BatchSize, o.Concurrency, o.BatchWait}.check("ConsumeBatch")
	if o.Transactional {
		err = errors.Join(err, fmt.Errorf("ConsumeBatch: it can't be Transactional; expected Consume, or no Transactional: %w", ErrInvalid))
	}
	if err != nil {
		return err
	}
	o.Concurrency = b.inFlight()
	var calls consumer.Calls
	defer calls.Join()
	return c.consume(ctx, topicName, groupName, b.handlers(c, h, &calls), &o)
}
