package push

import (
	"context"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Share is the part of an endpoint's limits for a process that delivers one subscription, for
// ringfence.SubscribeOptions.Target: the same as for one that serves with the same limits. nil: the endpoint has
// none. It follows how many subscriptions go there until end is called, once nothing is delivered any more.
// ErrInvalid for impossible limits.
func Share(ctx context.Context, rf *ringfence.Client, d *api.Subscription, limits map[string]Limits, log *slog.Logger) (t *shard.Limiter, end func(), _ error) {
	targets, err := targetsOf(limits)
	if err != nil {
		return nil, nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := server{rf: rf, targets: targets, opts: ServeOptions{Config: Config{Logger: log}, Poll: lookEvery}}
	if t = s.target(d); t == nil {
		return nil, func() {}, nil
	}
	all, err := rf.Admin().ListSubscriptions(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.count(all) // before anything is delivered
	ctx, stop := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() { s.countOn(ctx) }) // joined by end
	return t, func() {
		stop()
		counting.Wait()
		t.End()
	}, nil
}

// countOn counts anew whenever definitions may have changed. Where they can't be read the last number stays.
func (s *server) countOn(ctx context.Context) {
	var hints <-chan struct{} // nil: no hints
	for ctx.Err() == nil {
		if hints == nil {
			hints, _ = subscription.Watch(ctx, s.rf.Registry()) // the reading reports an error
		}
		look := s.opts.Poll
		all, err := s.rf.Admin().ListSubscriptions(ctx)
		if unread := unreadIn(all, err); unread == nil {
			s.count(all)
			s.blind = false
		} else {
			if !s.blind && ctx.Err() == nil {
				s.opts.Config.Logger.Error("not all definitions of subscriptions can be read: the limits of the endpoint are divided as they were", "error", unread)
			}
			s.blind, look = true, lookAgain
		}
		if hints == nil {
			look = lookAgain
		}
		hints = s.wait(ctx, hints, look)
	}
}
