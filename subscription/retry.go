package subscription

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/shard"
)

// Retry orders that the pauses of failing records end now: of those with the IDs, which are parked, of the records of a
// key, or of all, those too that members hold in memory; then also that of the circuit. It returns how many parked ones
// these are. fault.NotFound when an ID is none of a parked record; fault.Conflict when it is a dead letter.
func (c *Subscriptions) Retry(ctx context.Context, name string, ids []string, key []byte) (int, error) {
	d, err := c.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	parked := map[core.ID]bool{}
	for again := true; again; {
		life, serving := d.Life(), d.Serving()
		for i, as := range serving {
			j, err := c.journalsOf(ctx, as)
			if err == nil {
				err = j.retry(ctx, ids, key, parked, len(serving) > 1, i > 0)
			}
			if err != nil {
				return inTime(parked), fmt.Errorf("subscription %q: %w", name, err)
			}
		}
		if d, err = c.Get(ctx, name); err != nil {
			return inTime(parked), err
		}
		now := d.Serving() // others than before: the journals may have ended before the order came
		again = d.Life() == life && !slices.EqualFunc(serving, now, func(a, b *Document) bool { return a.Set().ID == b.Set().ID })
	}
	for _, id := range ids {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(parked)), func(p core.ID) bool { return p.String() == id }) {
			return inTime(parked), fmt.Errorf("subscription %q: no record %q is parked: %w", name, id, fault.NotFound)
		}
	}
	return inTime(parked), nil
}

// inTime counts the records for which the order came in time.
func inTime(parked map[core.ID]bool) (n int) {
	for _, yes := range parked {
		if yes {
			n++
		}
	}
	return n
}

// retry orders it of the parked records of a set, and notes which these are, and whether it came in time for them. During a
// reshard an order may come too late for the old set, and too early for a record that the new one, the heir, has yet to
// take over: so the heir gets the order for what is parked in the old one, too.
func (j *journals) retry(ctx context.Context, ids []string, key []byte, parked map[core.ID]bool, turning, heir bool) error {
	orders := make([]shard.Ordered, j.Shards)
	for at := range orders {
		o := &orders[at]
		o.Shard, o.Verb, o.Key = at, core.Retry, key
		items, err := j.Items(ctx, at)
		if err != nil {
			return err
		}
		for _, it := range items {
			wanted := slices.Contains(ids, it.ID.String())
			switch {
			case wanted && it.Dead:
				return fmt.Errorf("record %s was given up: \"ringfence subscription dead-letters redrive %s %s\" delivers it again: %w", it.ID, j.Definition.Name, it.ID, fault.Conflict)
			case wanted:
				o.IDs = append(o.IDs, it.ID)
				parked[it.ID] = true
			case len(ids) == 0 && !it.Dead && (key == nil || it.Key != nil && bytes.Equal(key, it.Key)):
				parked[it.ID] = true
			}
		}
	}
	for _, o := range orders {
		if heir && len(ids) > 0 {
			o.IDs = slices.Collect(maps.Keys(parked))
		}
		if len(ids) > 0 && len(o.IDs) == 0 {
			continue
		}
		late, err := j.Order(ctx, o)
		if err != nil {
			return err
		}
		if turning {
			continue
		}
		for _, id := range late { // they were delivered, or given up, meanwhile
			parked[id] = false
		}
	}
	return nil
}
