package admin

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
)

// DescribeSubscription describes a subscription with its group, its backlog, and what its members store about their deliveries, at
// most once a second. What can't be read is missing, told in Problems, and the error: then the rest is there all the same.
func (c *Client) DescribeSubscription(ctx context.Context, name string) (*api.SubscriptionStatus, error) {
	d, err := c.subs.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &api.SubscriptionStatus{Subscription: *subscriptionOf(d)}
	var problems []error
	problem := func(err error) {
		if err != nil {
			s.Problems, problems = append(s.Problems, err.Error()), append(problems, err)
		}
	}
	problem(c.subs.CheckTopic(ctx, d))
	switch g, err := c.DescribeGroup(ctx, d.Group()); {
	case err == nil:
		s.Group = &g
		s.Breaker, s.Limited = breakerOf(&g), limitsOf(d, &g)
	case !errors.Is(err, fault.NotFound): // else it was never delivered
		problem(err)
	}
	s.EndpointLimits, err = c.endpointLimits(ctx, d, s.Group)
	problem(err)
	s.Backlog, err = c.CountBacklog(ctx, name)
	problem(err)
	return s, errors.Join(problems...)
}

// breakerOf sums up what owners store; nil: there is no member.
func breakerOf(g *api.Group) *api.Breaker {
	if len(g.Members) == 0 {
		return nil
	}
	b := &api.Breaker{State: "closed"}
	for _, m := range g.Members {
		// A process has one breaker for all its shards. Shards that have not begun store nothing about it.
		open, told := api.OpenBreaker{Member: m.ID}, false
		for _, u := range g.Units {
			if u.Owner != m.ID {
				continue
			}
			open.Shards = append(open.Shards, u.Unit)
			if d := u.Deliveries; d != nil && d.HeldBack != nil && !told {
				told, open.HeldBack = true, *d.HeldBack
			}
		}
		if told {
			b.State, b.Open = "open", append(b.Open, open)
		}
	}
	return b
}

// limitsOf divides the limits of a subscription as its members do.
func limitsOf(d *subscription.Document, g *api.Group) (all []api.MemberLimits) {
	partitions := 0
	for _, u := range g.Units {
		partitions += len(u.Positions)
	}
	for _, m := range g.Members {
		has := api.MemberLimits{Member: m.ID}
		for _, u := range g.Units {
			if u.Owner != m.ID {
				continue
			}
			has.Rate += float64(d.Rate()) * float64(len(u.Positions)) / float64(partitions)
			has.Concurrency += d.Concurrency(u.Unit)
			has.Used = withUse(has.Used, u.Deliveries)
			if u.Deliveries != nil {
				has.Backoff = max(has.Backoff, u.Deliveries.Backoff)
			}
		}
		if d.Limits != nil || has.Backoff > 0 {
			all = append(all, has)
		}
	}
	return all
}

// withUse adds what one shard uses.
func withUse(u *api.Used, d *api.Deliveries) *api.Used {
	if d == nil {
		return u
	}
	if u == nil {
		u = &api.Used{At: d.At}
	}
	u.Rate += d.Rate
	u.Running += d.Running
	u.At = min(u.At, d.At)
	return u
}

// endpointLimits is what members of a subscription store about the limits of its endpoint, and what all subscriptions of that
// origin use; nil: there are no limits.
func (c *Client) endpointLimits(ctx context.Context, d *subscription.Document, g *api.Group) (*api.EndpointLimits, error) {
	if g == nil || d.Endpoint == nil {
		return nil, nil
	}
	var v api.EndpointLimits
	for _, m := range g.Members {
		for _, u := range g.Units {
			if u.Owner == m.ID && u.Deliveries != nil && u.Deliveries.Endpoint != nil {
				v.Members = append(v.Members, api.MemberEndpoint{Member: m.ID, EndpointPart: *u.Deliveries.Endpoint})
				break
			}
		}
	}
	if v.Members == nil {
		return nil, nil
	}
	v.Origin, _ = subscription.OriginOf(d.Endpoint.URL) // a definition has no other URL
	all, err := c.subs.List(ctx)
	if err != nil {
		return &v, err
	}
	for _, other := range all {
		if other.Endpoint == nil {
			continue
		}
		if origin, err := subscription.OriginOf(other.Endpoint.URL); err != nil || origin != v.Origin {
			continue
		}
		of, err := c.groups.Deliveries(ctx, other.Group())
		if errors.Is(err, fault.NotFound) {
			continue // it was never delivered
		}
		if err != nil {
			return &v, err
		}
		for _, d := range of {
			v.Used = withUse(v.Used, d)
		}
	}
	return &v, nil
}
