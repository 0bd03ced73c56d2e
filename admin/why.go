package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/spell"
)

// ExplainKey says where the records of a key are in a group or a subscription, and what holds them back. It looks at the
// partitions that the router gives the key, and for a subscription at what is parked; a record that a producer has put
// elsewhere is not found. ErrNotFound when there is neither. With an error the answer has what could be read.
func (c *Client) ExplainKey(ctx context.Context, name string, key []byte) (*api.KeyAnswer, error) {
	a := &api.KeyAnswer{Name: name, Blocked: []api.BlockedKey{}, Waiting: []api.KeyWait{}, Holding: []api.Finding{}}
	a.Key, a.KeyEncoding = api.Text(key)
	s := &survey{now: time.Now()}
	d, err := c.DescribeSubscription(ctx, name)
	switch {
	case d != nil:
		err = errors.Join(err, c.keyOfSubscription(ctx, s, a, d, key))
	case errors.Is(err, fault.NotFound):
		var g api.Group
		if g, err = c.DescribeGroup(ctx, name); errors.Is(err, fault.NotFound) {
			return nil, fmt.Errorf("no group and no subscription has the name %q: %w", name, fault.NotFound)
		}
		if err == nil {
			err = c.keyOfGroup(ctx, s, a, &g, key)
		}
	}
	if a.What == "" {
		return nil, err
	}
	a.State = stateOf(a, err)
	return a, err
}

func (c *Client) keyOfGroup(ctx context.Context, s *survey, a *api.KeyAnswer, g *api.Group, key []byte) (err error) {
	a.What, a.Topic = "group", g.Topic
	a.Waiting, err = c.subs.WaitsOf(ctx, g.Name, key)
	a.Holding = holding(s.ofGroup(g), a.Waiting)
	for _, w := range a.Waiting {
		if w.Records > 0 && w.Owner != "" && w.Held == nil && len(a.Holding) == 0 {
			a.Unknown = append(a.Unknown, fmt.Sprintf("whether offset %d of partition %d has failed: its owner stores the record alone that has failed for the longest, the log of %s tells all", w.Offset, w.Partition, w.Owner))
		}
	}
	return err
}

func (c *Client) keyOfSubscription(ctx context.Context, s *survey, a *api.KeyAnswer, d *api.SubscriptionStatus, key []byte) error {
	a.What, a.Topic = "subscription", d.Topic
	var errs []error
	if d.Order == api.OrderNone {
		if n := d.Parked.Records; n > 0 {
			a.Unknown = append(a.Unknown, fmt.Sprintf("whether any of %s is of this key: without an order, nothing is parked by its key", spell.Plural(int64(n), "parked record")))
		}
		a.Unknown = append(a.Unknown, fmt.Sprintf("which dead letters are of it: \"ringfence subscription dead-letters list %s --key\" shows them", d.Name))
	} else {
		blocked, err := c.subs.Why(ctx, d.Name, key)
		a.Blocked, errs = append(a.Blocked, blocked...), append(errs, err)
	}
	switch {
	case d.Group == nil:
		a.Unknown = append(a.Unknown, "how many records of it wait: the subscription was never delivered")
	case d.Order == api.OrderByFunction:
		if d.Group.Lag > 0 {
			a.Unknown = append(a.Unknown, fmt.Sprintf("whether any of %s is of it: what a function returns is only known of parked records", spell.Plural(d.Group.Lag, "waiting record")))
		}
	default:
		waits, err := c.subs.WaitsOf(ctx, d.Set().Group, key)
		a.Waiting, errs = append(a.Waiting, waits...), append(errs, err)
		if n := d.Group.Later; n > 0 {
			a.Unknown = append(a.Unknown, fmt.Sprintf("whether any of %s in later storage topics is of it", spell.Plural(n, "record")))
		}
	}
	if was, closing := d.Closing(); closing {
		a.Unknown = append(a.Unknown, fmt.Sprintf("what the shards of set %s, which end, have in memory", was.ID))
	}
	a.Holding = holding(s.ofSubscription(d), a.Waiting)
	return errors.Join(errs...)
}

// holding are the findings that hold all records back where a key waits; without waiting records, those of everything.
func holding(all []api.Finding, waits []api.KeyWait) []api.Finding {
	owned := len(waits) > 0 && !slices.ContainsFunc(waits, func(w api.KeyWait) bool { return w.Owner == "" })
	out := []api.Finding{}
	for _, f := range all {
		switch f.Kind {
		case api.FoundDead, api.FoundParked, api.FoundBehind, api.FoundMember, api.FoundSlow, api.FoundFailing:
			continue
		case api.FoundNoOwner:
			if owned {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

// stateOf sums an answer up; err is what could not be read.
func stateOf(a *api.KeyAnswer, err error) api.KeyState {
	state := api.KeyDone
	for _, b := range a.Blocked {
		switch {
		case b.Status == "failed":
			return api.KeyDead
		case b.Status != "delayed":
			state = api.KeyParked
		case state == api.KeyDone:
			state = api.KeyDelayed
		}
	}
	if state != api.KeyDone {
		return state
	}
	unseen := err != nil || len(a.Unknown) > 0
	for _, w := range a.Waiting {
		switch {
		case w.Held != nil:
			return api.KeyHeld
		case w.Records > 0:
			state = api.KeyWaiting
		default:
			unseen = true
		}
	}
	if state == api.KeyDone && unseen {
		return api.KeyUnknown
	}
	return state
}
