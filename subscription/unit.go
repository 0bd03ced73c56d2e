package subscription

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/filter"
	"github.com/ringfence/ringfence/subscription/shard"
	"github.com/ringfence/ringfence/topic"
)

// This file joins a unit of the consumer group to the engine that reads its main records. The shard starts with
// the unit's epoch, the engine begins once the shard knows what was left, and both end together. The shard runs
// before the first record is read, and until the engine's last checkpoint is stored.

// shards runs the shards of one shard set of a subscription around the engines of their units.
type shards struct {
	*journals
	of         *Subscriptions
	group      *protocol.Group
	partitions int           // of the storage topic that they deliver
	from       consumer.From // where those without a checkpoint begin
	before     *journals     // of the set before this one; nil: there was none
	parents    *core.Parents // from that
	drain      time.Duration
	limiter    *shard.Limiter
	teller     *dispatch.Teller
	opts       Options
	logger     *slog.Logger

	enough chan struct{} // closed when the set is to end at once
	last   chan struct{} // closed when it is to end with its storage topic
	sealed chan struct{} // closed when that is sealed, and there is a next one
	once   sync.Once
	seal   sync.Once
	main   atomic.Pointer[topic.Document] // the latest known definition of the topic
	news   func()                         // called when a shard has read its storage topic to the end

	retired atomic.Bool // the set is needed no more
	lost    atomic.Bool // the log does not have a journal of it, or of the one before
	leave   func()      // ends the member of the set

	mu    sync.Mutex // held over all shards: a change of the definition misses none that comes
	now   *Document  // as its shard set sees it
	next  Set        // continues for this set, once enough is closed
	since int64      // Unix ms: when enough was closed
	runs  map[*shard.Shard]struct{}
	read  map[*shard.Shard]int64 // the shards that have read all, and since when, in Unix ms
}

// end ends all shards for good: another set goes on.
func (w *shards) end(next Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.once.Do(func() {
		w.next, w.since = next, time.Now().UnixMilli()
		if next.Follows(w.Definition.Set()) {
			close(w.last)
		} else {
			close(w.enough)
		}
	})
}

// ending reports whether the shards are to end at once.
func (w *shards) ending() bool { return isClosed(w.enough) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// failed tells a failure of a shard.
func (w *shards) failed(f dispatch.Failure) {
	f.Topic = w.Definition.Topic
	w.teller.Tell(f)
}

// terms returns what the definition says of deliveries now.
func (w *shards) terms(d *Document) (shard.Terms, error) {
	wanted, err := w.wanted(d)
	return shard.Terms{Retry: d.Retry.policy(), DeadLetters: d.DeadLetters, Filter: wanted}, err
}

// wanted returns the filter of the definition for a shard, followed by that of the member; nil: there is
// none.
func (w *shards) wanted(d *Document) (func(*dispatch.Record) (bool, error), error) {
	f, err := d.Matcher()
	if f == nil || err != nil {
		return w.wantedHere(), err
	}
	also := w.wantedHere()
	return func(r *dispatch.Record) (bool, error) {
		ok, err := f.Match(&r.Record, filter.Origin{Topic: d.Topic, Partition: r.Partition, Offset: r.Offset})
		if !ok || err != nil || also == nil {
			return ok, err
		}
		return also(r)
	}, nil
}

// wantedHere is the filter that the member was given. One that panics can't judge the record.
func (w *shards) wantedHere() func(*dispatch.Record) (bool, error) {
	if w.opts.Filter == nil {
		return nil
	}
	return func(r *dispatch.Record) (ok bool, err error) {
		defer func() {
			if v := recover(); v != nil {
				ok, err = false, fmt.Errorf("the filter panicked: %v", v)
				w.logger.Error("a filter panicked", "subscription", w.Definition.Name, "storage", r.Storage, "partition", r.Partition, "offset", r.Offset,
					"panic", v, "stack", string(debug.Stack()))
			}
		}()
		return w.opts.Filter(w.Definition.Topic, r)
	}
}

// run starts the shard of a unit, and the engine once the shard knows what is parked.
func (w *shards) run(ctx context.Context, u *group.Unit, in []dispatch.Input, h dispatch.Handler,
	engine func(context.Context, consumer.Inner) error,
) error {
	have, err := w.group.Unit(ctx, u.Number())
	if err != nil {
		return err
	}
	var left []*shard.Left
	if have.Checkpoint == nil && w.before != nil {
		if left, err = w.await(ctx, u); err != nil || left == nil {
			return w.found(err)
		}
	}
	var from int64
	if have.Checkpoint != nil {
		from = have.Checkpoint.From
	}
	d := w.Definition
	terms, err := w.terms(d) // add brings those of now
	if err != nil {
		return err
	}
	s := shard.New(shard.Config{
		Grant:      shard.Grant{Name: d.Name, Set: w.Set, Shard: u.Number(), Epoch: u.Epoch(), Run: u.Run(), Member: u.Member()},
		Topics:     shard.Topics{Journal: w.Journal, Dead: w.Dead, Decisions: w.Decisions},
		Checkpoint: shard.Checkpoint{From: from, Stored: func(ctx context.Context) (int64, error) { return w.Stored(ctx, u.Number()) }, Advanced: u.Advanced},
		Takeover:   shard.Takeover{Heir: left != nil, Parents: w.parents},
		Policy:     shard.Policy{Terms: terms, OrderBy: w.opts.orderBy(d), Failed: w.failed, AnswerTimeout: w.opts.HandlerTimeout},
		Limits:     shard.Limits{Own: w.limiter, Endpoint: w.opts.Target}, Handler: h, Logger: w.logger,
	})
	leave := w.add(s, len(in))
	if w.ending() || isClosed(w.last) && w.past(have.Checkpoint, in) {
		s.Quiesce()
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := make(chan error, 1)
	go func() { // joined below
		err := s.Run(running)
		stop(err)
		over <- err
	}()
	select {
	case <-s.Started():
		d := &delivery{shards: w, unit: u, shard: s, in: in, have: have.Checkpoint, left: left}
		err = d.run(running, engine)
		s.Drain(ctx, w.drain)
	case <-u.Draining():
	case <-running.Done():
	}
	stop(nil)
	if own := <-over; own != nil {
		err = w.found(own) // the engine only says that its context has ended
	}
	leave() // the next owner has its part of the rate
	return w.rest(ctx, u, err)
}

// found looks for a journal that the log does not have in an error: the handles are of a set that was deleted, which a
// registry that went back names again. The member joins anew, by what the log has then.
func (w *shards) found(err error) error {
	if errors.Is(err, fault.NotFound) {
		w.lost.Store(true)
		w.leave()
	}
	return err
}

// add makes a shard of so many partitions follow the definition until remove is called.
func (w *shards) add(s *shard.Shard, partitions int) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs = map[*shard.Shard]struct{}{}
	}
	w.runs[s] = struct{}{}
	w.apply(s)
	part := float64(partitions) / float64(w.partitions)
	leave, leaveEndpoint := w.limiter.Join(s, part), w.opts.Target.Join(s, part)
	return func() {
		leave()
		leaveEndpoint()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.runs, s)
		delete(w.read, s)
	}
}

// heed applies a definition, as it is stored, to the shards.
func (w *shards) heed(d *Document) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = d.As(w.Definition.Set())
	for s := range w.runs {
		w.apply(s)
	}
}

// apply makes a shard go by the definition of now; the caller holds mu.
func (w *shards) apply(s *shard.Shard) {
	s.SetPaused(w.now.Paused != nil)
	s.SetConcurrency(w.now.Concurrency(s.Number()))
	terms, err := w.terms(w.now)
	if err != nil {
		w.logger.Error("the filter of the subscription can't be used; its shards go on with the one they have", "subscription", w.now.Name, "error", err)
		return
	}
	s.SetTerms(terms)
}
