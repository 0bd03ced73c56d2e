package push

import (
	"context"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
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
	counting.Go(func() { // joined by end
		s.watch(ctx, func(ctx context.Context) bool {
			_, complete, _ := s.list(ctx, "the limits of the endpoint are divided as they were")
			return complete
		})
	})
	return t, func() {
		stop()
		counting.Wait()
		t.End()
	}, nil
}
