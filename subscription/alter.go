package subscription

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/ringfence/ringfence/internal/fault"
)

// A definition is altered by compare and set, and its members follow: each hears of it as of a pause, and goes by it
// from its next judgement on (shard.Terms). Only the endpoint is another handler: its deliverer begins anew with it
// (package push). What is parked names offsets of the topic, in the order that the definition had: so these two stay.

// Alter stores what f makes of a definition, and returns it as it is stored. f gets the definition of now, more than
// once when another change comes between. fault.Conflict for what can't be changed in place, with what to do.
func (c *Catalog) Alter(ctx context.Context, name string, f func(now Document) (Document, error)) (*Document, error) {
	return c.change(ctx, name, func(d *Document) (bool, error) {
		want, err := f(*d)
		if err != nil {
			return false, err
		}
		want.withDefaults()
		if err := errors.Join(d.fixed(&want)...); err != nil {
			return false, err
		}
		now := *d
		now.Retry, now.DeadLetters, now.Endpoint, now.Filter, now.Limits = want.Retry, want.DeadLetters, want.Endpoint, want.Filter, want.Limits
		if d.Endpoint == nil || now.Endpoint == nil || d.Endpoint.URL != now.Endpoint.URL {
			now.TakenAt = 0
		}
		if err := errors.Join(now.validate(), now.Limits.CheckShards(name, now.Set().Shards)); err != nil {
			return false, err
		}
		change := !reflect.DeepEqual(&now, d)
		*d = now
		return change, nil
	})
}

// fixed returns an error for each setting that can't be changed in place.
func (d *Document) fixed(want *Document) (errs []error) {
	refuse := func(differ bool, format string, args ...any) {
		if differ {
			errs = append(errs, fmt.Errorf("subscription %q %s: %w", d.Name, fmt.Sprintf(format, args...), fault.Conflict))
		}
	}
	refuse(want.Topic != d.Topic, "delivers topic %q, and its progress and what is parked are places in that; another subscription delivers topic %q", d.Topic, want.Topic)
	refuse(want.Order != d.Order, "is ordered by %s, and so is what is parked; another subscription is ordered by %s", d.Order, want.Order)
	refuse(want.From != d.From, "began at %s; \"ringfence subscription reset %s --to %s\" sends it to another place", d.From, d.Name, want.From)
	shards := want.Set().Shards
	refuse(shards != 0 && shards != d.Set().Shards, "has %d shards; \"ringfence subscription reshard %s --shards %d\" changes that", d.Set().Shards, d.Name, shards)
	return errs
}
