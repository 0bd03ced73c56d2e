package push

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Limits bound what all subscriptions of all daemons post to an endpoint; 0: no bound.
type Limits struct {
	Rate        int // attempts that begin in a second
	Concurrency int // attempts under way, at least one in each daemon
}

// Origin parses s as an origin, and nothing else: ErrInvalid for a URL with a path.
func Origin(s string) (string, error) {
	origin, err := subscription.OriginOf(s)
	if u, e := url.Parse(s); err == nil && e == nil && !strings.EqualFold(strings.TrimSuffix(s, "/"), u.Scheme+"://"+u.Host) {
		err = fmt.Errorf("the endpoint %q: expected an origin alone, as %q: %w", shownURL(u), origin, fault.Invalid)
	}
	return origin, err
}

// targetsOf returns the limiters of endpoints with limits, by origin.
func targetsOf(limits map[string]Limits) (map[string]*shard.Limiter, error) {
	targets := map[string]*shard.Limiter{}
	var errs []error
	for at, l := range limits {
		origin, err := Origin(at)
		if err == nil && (l.Rate < 0 || l.Rate > subscription.MaxRate || l.Concurrency < 0 || l.Concurrency > subscription.MaxConcurrency) {
			err = fmt.Errorf("the endpoint %s: a rate of %d and a concurrency of %d; expected at most %d and %d: %w",
				origin, l.Rate, l.Concurrency, subscription.MaxRate, subscription.MaxConcurrency, fault.Invalid)
		}
		if errs = append(errs, err); err == nil {
			targets[origin] = shard.NewEndpoint(l.Rate, l.Concurrency)
		}
	}
	return targets, errors.Join(errs...)
}

// count tells each endpoint with limits how many subscriptions go there. Paused ones count: their
// shards are here with their parts, which the others use.
func (s *server) count(all []*api.Subscription) {
	among := map[string]int{}
	for _, d := range all {
		if d.Endpoint != nil {
			origin, _ := subscription.OriginOf(d.Endpoint.URL) // "": delivering it reports that
			among[origin]++
		}
	}
	for origin, t := range s.targets {
		t.SetSubscriptions(among[origin])
	}
}

// target is the limiter of a subscription's endpoint; nil: it has no limits.
func (s *server) target(d *api.Subscription) *shard.Limiter {
	origin, _ := subscription.OriginOf(d.Endpoint.URL) // as above
	return s.targets[origin]
}
