package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

func subscriptions(t *table) {
	on(t, &api.V1.ListSubscriptions, listSubscriptions)
	on(t, &api.V1.DescribeSubscription, func(r *request, in *api.SubscriptionRef) (*api.SubscriptionStatus, error) {
		return r.rf.Admin().DescribeSubscription(r.Context(), in.Subscription)
	})
	on(t, &api.V1.CreateSubscription, func(r *request, in *api.CreateSubscription) (*api.Subscription, error) {
		return r.rf.Admin().CreateSubscription(r.Context(), in.Subscription, configOf(&in.Body))
	})
	on(t, &api.V1.AlterSubscription, func(r *request, in *api.AlterSubscription) (*api.Subscription, error) {
		return r.rf.Admin().AlterSubscription(r.Context(), in.Subscription, func(cfg *admin.SubscriptionConfig) error {
			now := newOf(cfg)
			dec := json.NewDecoder(bytes.NewReader(in.Body))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&now); err != nil {
				return invalid("body", err)
			}
			*cfg = configOf(&now)
			return nil
		}, &admin.AlterSubscriptionOptions{ID: in.Life})
	})
	on(t, &api.V1.PauseSubscription, func(r *request, in *api.PauseSubscription) (*api.Subscription, error) {
		return r.rf.Admin().PauseSubscription(r.Context(), in.Subscription, &admin.PauseSubscriptionOptions{Reason: in.Body.Reason, By: r.principal.Name})
	})
	on(t, &api.V1.ResumeSubscription, func(r *request, in *api.SubscriptionRef) (*api.Subscription, error) {
		return r.rf.Admin().ResumeSubscription(r.Context(), in.Subscription)
	})
	on(t, &api.V1.RetrySubscription, func(r *request, in *api.RetrySubscription) (*api.DeadLetterOrder, error) {
		n, err := r.rf.Admin().RetrySubscription(r.Context(), in.Subscription, &admin.RetrySubscriptionOptions{IDs: in.IDs, Key: bytesOf(in.Key)})
		return ordered(r, in.Subscription, "retry", n, false, err)
	})
	on(t, &api.V1.ReshardSubscription, func(r *request, in *api.ReshardSubscription) (*api.Reshard, error) {
		return r.rf.Admin().ReshardSubscription(r.Context(), in.Subscription, in.Shards, &admin.ReshardSubscriptionOptions{DryRun: in.DryRun})
	})
	on(t, &api.V1.ResetSubscription, func(r *request, in *api.ResetSubscription) (*api.Reset, error) {
		to, err := ringfence.ParseSeek(in.To)
		if err != nil {
			return nil, err
		}
		return r.rf.Admin().ResetSubscription(r.Context(), in.Subscription, to, &admin.ResetSubscriptionOptions{Storage: in.Storage, Partitions: in.Partitions, DropParked: in.DropParked, DryRun: in.DryRun})
	})
	on(t, &api.V1.DeleteSubscription, func(r *request, in *api.DeleteSubscription) (api.None, error) {
		return api.None{}, r.rf.Admin().DeleteSubscription(r.Context(), in.Subscription, &admin.DeleteSubscriptionOptions{Force: in.Force, DryRun: in.DryRun})
	})
	on(t, &api.V1.ExplainSubscribedKey, func(r *request, in *api.SubscribedKeyRef) (*api.KeyAnswer, error) {
		return explain(r, in.Subscription, in.Key, in.Encoding)
	})
	letters(t)
}

func letters(t *table) {
	on(t, &api.V1.ListDeadLetters, func(r *request, in *api.DeadLetters) (api.List[api.DeadLetter], error) {
		all, err := r.rf.Admin().ListDeadLetters(r.Context(), in.Subscription, choice(in))
		return api.List[api.DeadLetter]{Items: all}, err
	})
	for order, by := range map[string]struct {
		call *api.Call[api.DeadLetters, *api.DeadLetterOrder]
		do   func(*admin.Client, context.Context, string, *admin.DeadLetterOptions) (int, error)
	}{
		"redrive": {&api.V1.RedriveDeadLetters, (*admin.Client).RedriveDeadLetters},
		"skip":    {&api.V1.SkipDeadLetters, (*admin.Client).SkipDeadLetters},
		"discard": {&api.V1.DiscardDeadLetters, (*admin.Client).DiscardDeadLetters},
	} {
		on(t, by.call, func(r *request, in *api.DeadLetters) (*api.DeadLetterOrder, error) {
			n, err := by.do(r.rf.Admin(), r.Context(), in.Subscription, choice(in))
			return ordered(r, in.Subscription, order, n, in.DryRun, err)
		})
	}
	on(t, &api.V1.EditDeadLetter, func(r *request, in *api.EditDeadLetter) (*api.DeadLetterOrder, error) {
		value, err := api.Bytes(in.Body.Value, in.Body.ValueEncoding)
		if err != nil {
			return nil, invalid("value", err)
		}
		return ordered(r, in.Subscription, "edit", 1, false, r.rf.Admin().EditDeadLetter(r.Context(), in.Subscription, in.Letter, value))
	})
}

func listSubscriptions(r *request, in *api.ListSubscriptions) (api.List[api.SubscriptionStatus], error) {
	var all []api.SubscriptionStatus
	if in.Measure {
		full, err := r.rf.Admin().MeasureSubscriptions(r.Context())
		if err != nil {
			return api.List[api.SubscriptionStatus]{}, err
		}
		for _, s := range full {
			all = append(all, *s)
		}
	} else {
		list, err := r.rf.Admin().ListSubscriptions(r.Context())
		if err != nil {
			return api.List[api.SubscriptionStatus]{}, err
		}
		for _, s := range list {
			all = append(all, api.SubscriptionStatus{Subscription: *s})
		}
	}
	return seen(r, all, nil, func(s *api.SubscriptionStatus) string { return s.Name })
}

// ordered is the answer to an order about dead letters or parked records.
func ordered(r *request, name, order string, n int, dry bool, err error) (*api.DeadLetterOrder, error) {
	if err != nil {
		return nil, err
	}
	o := &api.DeadLetterOrder{Subscription: name, Order: order, Records: n, DryRun: dry}
	if n > 0 && !dry {
		d, err := r.rf.Admin().GetSubscription(r.Context(), name)
		if err != nil {
			return nil, err
		}
		g, err := r.rf.Admin().DescribeGroup(r.Context(), d.Group())
		o.Waits = errors.Is(err, fault.NotFound) || err == nil && len(g.Members) == 0
	}
	return o, nil
}

func choice(in *api.DeadLetters) *admin.DeadLetterOptions {
	return &admin.DeadLetterOptions{IDs: in.IDs, Key: bytesOf(in.Key), Since: in.Since.Time(), Filter: in.Filter, Decided: in.Decided, DryRun: in.DryRun}
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func explain(r *request, name, key, encoding string) (*api.KeyAnswer, error) {
	b, err := api.Bytes(key, encoding)
	if err != nil {
		return nil, invalid("key", err)
	}
	return r.rf.Admin().ExplainKey(r.Context(), name, b)
}

// configOf is what a subscription is made with.
func configOf(n *api.NewSubscription) admin.SubscriptionConfig {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	c := admin.SubscriptionConfig{
		Topic: n.Topic, Order: n.Order, Shards: n.Shards, From: n.From, DeadLetters: n.DeadLetters, Filter: n.Filter,
		Retry: admin.Retry{Initial: ms(n.Retry.InitialMS), Max: ms(n.Retry.MaxMS), Attempts: n.Retry.MaxAttempts, AfterMax: ms(n.Retry.AfterMaxMS)},
		Hold:  ms(n.Retry.HoldMS),
	}
	if e := n.Endpoint; e != nil {
		c.Endpoint = admin.EndpointConfig{URL: e.URL, Timeout: ms(e.TimeoutMS), SecretFile: e.SecretFile, CloudEvents: e.CloudEvents, GiveUpFirst: e.GiveUpFirst}
	}
	if l := n.Limits; l != nil {
		c.Rate, c.Concurrency = l.Rate, l.Concurrency
	}
	return c
}

// newOf is the reverse of configOf.
func newOf(c *admin.SubscriptionConfig) api.NewSubscription {
	n := api.NewSubscription{
		Topic: c.Topic, Order: c.Order, Shards: c.Shards, From: c.From, DeadLetters: c.DeadLetters, Filter: c.Filter,
		Retry: api.Retry{InitialMS: c.Retry.Initial.Milliseconds(), MaxMS: c.Retry.Max.Milliseconds(), MaxAttempts: c.Retry.Attempts, AfterMaxMS: c.Retry.AfterMax.Milliseconds(), HoldMS: c.Hold.Milliseconds()},
	}
	if e := c.Endpoint; e.URL != "" {
		n.Endpoint = &api.Endpoint{URL: e.URL, TimeoutMS: e.Timeout.Milliseconds(), SecretFile: e.SecretFile, CloudEvents: e.CloudEvents, GiveUpFirst: e.GiveUpFirst}
	}
	if c.Rate > 0 || c.Concurrency > 0 {
		n.Limits = &api.Limits{Rate: c.Rate, Concurrency: c.Concurrency}
	}
	return n
}

func rings(t *table) {
	on(t, &api.V1.ListRings, func(r *request, _ *api.None) (api.List[api.Ring], error) {
		all, err := r.rf.Admin().ListRings(r.Context())
		return seen(r, all, err, func(g *api.Ring) string { return g.Ring })
	})
	on(t, &api.V1.DescribeRing, func(r *request, in *api.RingRef) (*api.Ring, error) {
		return r.rf.Admin().DescribeRing(r.Context(), in.Ring)
	})
	on(t, &api.V1.FindRingOwner, func(r *request, in *api.RingKey) (*api.RingOwner, error) {
		return r.rf.Admin().FindRingOwner(r.Context(), in.Ring, in.Key)
	})
}
