package push

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// errAltered ends a delivery: the definition has another endpoint.
var errAltered = errors.New("the subscription has another endpoint")

// Run delivers one subscription, with the part of its endpoint's limits that Serve would give it, until ctx ends: then
// it drains and returns nil. It follows the definition: with another endpoint it begins anew. Its errors are those of
// For, Subscribe and Serve.
func Run(ctx context.Context, rf *ringfence.Client, name string, opts *ServeOptions) error {
	s, err := newServer(rf, opts)
	if err != nil {
		return err
	}
	defer s.end()
	for id := s.opts.Subscribe.ID; ; {
		d, err := rf.Admin().GetSubscription(ctx, name)
		if err == nil && id != "" && d.ID != id {
			err = fmt.Errorf("subscription %q is another one by now: %w", name, fault.NotFound)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		id = d.ID
		if err := s.runOne(ctx, d); !errors.Is(err, errAltered) {
			return err
		}
	}
}

// runOne delivers a subscription by a definition; errAltered when that has another endpoint.
func (s *server) runOne(ctx context.Context, d *api.Subscription) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all, err := s.rf.Admin().ListSubscriptions(ctx)
	if err != nil {
		return err
	}
	s.count(all) // before anything is delivered
	var following sync.WaitGroup
	following.Go(func() { // joined below
		s.watch(ctx, func(ctx context.Context) bool {
			all, complete, _ := s.list(ctx, "what runs goes on, and the limits of the endpoint are divided as they were")
			for _, now := range all {
				if now.Name == d.Name && now.ID == d.ID && now.Damaged == "" && (now.Endpoint == nil || *now.Endpoint != *d.Endpoint) {
					stop(errAltered)
				}
			}
			return complete
		})
	})
	err = s.subscribe(ctx, d)
	altered := errors.Is(context.Cause(ctx), errAltered)
	stop(nil)
	following.Wait()
	if err == nil && altered {
		return errAltered
	}
	return err
}
