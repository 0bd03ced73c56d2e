package subscription

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Retry orders that the pauses of failing records end now: of those with the IDs, which are parked, of the records of a
// key, or of all, those too that members hold in memory; then also that of the circuit. It returns how many parked ones
// these are. fault.NotFound when an ID is none of a parked record; fault.Conflict when it is a dead letter.
func (c *Subscriptions) Retry(ctx context.Context, name string, ids []string, key []byte) (n int, _ error) {
	d, err := c.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	found := map[string]bool{}
	for _, as := range d.Serving() { // during a reshard two: what one of them has parked is, or will be, the other's
		j, err := c.journalsOf(ctx, as)
		if err != nil {
			return n, err
		}
		some, err := j.retry(ctx, ids, key, found)
		if n += some; err != nil {
			return n, fmt.Errorf("subscription %q: %w", name, err)
		}
	}
	for _, id := range ids {
		if !found[id] {
			return n, fmt.Errorf("subscription %q: no record %q is parked: %w", name, id, fault.NotFound)
		}
	}
	return n, nil
}

// retry orders it of the parked records of a set, and notes which IDs it found.
func (j *journals) retry(ctx context.Context, ids []string, key []byte, found map[string]bool) (n int, _ error) {
	orders := make([]shard.Ordered, j.Shards)
	for at := range orders {
		o := &orders[at]
		o.Shard, o.Verb, o.Key = at, core.Retry, key
		items, err := j.Items(ctx, at)
		if err != nil {
			return 0, err
		}
		for _, it := range items {
			named := slices.Contains(ids, it.ID.String())
			switch {
			case named && it.Dead:
				return 0, fmt.Errorf("record %s was given up: \"ringfence subscription dead-letters redrive %s %s\" delivers it again: %w", it.ID, j.Definition.Name, it.ID, fault.Conflict)
			case named:
				o.IDs, found[it.ID.String()] = append(o.IDs, it.ID), true
				n++
			case len(ids) == 0 && !it.Dead && (key == nil || it.Key != nil && bytes.Equal(key, it.Key)):
				n++
			}
		}
	}
	for _, o := range orders {
		if len(ids) > 0 && len(o.IDs) == 0 {
			continue
		}
		late, err := j.Order(ctx, o)
		if err != nil {
			return 0, err
		}
		n -= len(late) // they were delivered, or given up, meanwhile
	}
	return n, nil
}
