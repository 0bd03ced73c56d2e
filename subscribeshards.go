package ringfence

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
)

// shards runs the shards of a subscription around the engines of their units.
type shards struct {
	*subscription.Journals
	group   *registry.Group
	drain   time.Duration
	breaker *subscription.Breaker
	logger  *slog.Logger

	mu     sync.Mutex // held over all shards: one that comes is not missed by a pause
	paused bool
	runs   map[*subscription.Shard]struct{}
}

// run starts the shard of a unit, and the engine once the shard knows what is parked.
func (w *shards) run(ctx context.Context, u *group.Unit, in []dispatch.Input, h dispatch.Handler,
	engine func(context.Context, consumer.Inner) error,
) error {
	if len(in) != 1 {
		return fmt.Errorf("subscription %q: shard %d reads %d partitions, and it can deliver those of one only: %w", w.Definition.Name, u.Number(), len(in), ErrInvalid)
	}
	if in := in[0]; in.Storage > 0 {
		return fmt.Errorf("subscription %q: its topic has grown, and it can't deliver storage topic %d yet: %w", w.Definition.Name, in.Storage, ErrInvalid)
	}
	var from int64
	if ck := u.Checkpoint(); ck != nil {
		from = ck.From
	}
	s := subscription.NewShard(subscription.ShardConfig{
		Definition: w.Definition, Journal: w.Journal, Dead: w.Dead, Shard: in[0].Partition, From: from,
		Epoch: u.Epoch(), Run: u.Run(), Member: u.Member(), Stored: w.stored(u.Number()), Handler: h, Breaker: w.breaker, Logger: w.logger,
	})
	defer w.add(s)()
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := make(chan error, 1)
	go func() { // joined below
		err := s.Run(running)
		stop(err)
		over <- err
	}()
	var err error
	select {
	case <-s.Started():
		var fits bool
		if fits, err = s.Fit(running, u.Draining(), in[0].Storage, in[0].Partition, in[0].Source); fits {
			err = engine(running, consumer.Inner{Handler: s.Handle, Retry: s.Retry(), Journal: s.From, Began: func(e *dispatch.Engine) { s.Uses(e) }})
		}
		s.Drain(ctx, w.drain)
	case <-u.Draining():
	case <-running.Done():
	}
	stop(nil)
	if own := <-over; own != nil {
		return own // the engine only says that its context has ended
	}
	return err
}

// stored reads where the journal of a shard is needed from.
func (w *shards) stored(unit int) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		u, err := w.group.Unit(ctx, unit)
		if err != nil || u.Checkpoint == nil {
			return 0, err
		}
		return u.Checkpoint.From, nil
	}
}

// add lets a shard follow pauses until the returned function is called.
func (w *shards) add(s *subscription.Shard) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs = map[*subscription.Shard]struct{}{}
	}
	w.runs[s] = struct{}{}
	s.SetPaused(w.paused)
	leave := w.breaker.Join(s)
	return func() {
		leave()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.runs, s)
	}
}

// follow does what the definition says of a pause.
func (w *shards) follow(d *SubscriptionInfo) {
	switch changed := w.setPaused(d.Paused != nil); {
	case !changed:
	case d.Paused != nil:
		w.logger.Info("the subscription is paused", "subscription", d.Name, "reason", d.Paused.Reason)
	default:
		w.logger.Info("the subscription goes on", "subscription", d.Name)
	}
}

func (w *shards) setPaused(paused bool) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if paused == w.paused {
		return false
	}
	w.paused = paused
	for s := range w.runs {
		s.SetPaused(paused)
	}
	return true
}
