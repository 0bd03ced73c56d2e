package subscription

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/subscription/core"
)

// Backlog counts what a subscription holds back. With an error it counts what could be read.
func (c *Subscriptions) Backlog(ctx context.Context, name string) (api.Backlog, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return api.Backlog{}, err
	}
	t := tally{parked: map[string]bool{}, dead: map[string]bool{}}
	_, err = eachShard(j, func(shard int) ([]core.Item, error) {
		items, err := j.Items(ctx, shard)
		t.count(items)
		return nil, errors.Join(err, j.Whole(ctx, shard))
	})
	return t.Backlog, err
}

// tally counts shard by shard. A key may have records in several.
type tally struct {
	api.Backlog
	parked, dead map[string]bool // the keys
}

// count adds the items of a shard, in order of their origins.
func (c *tally) count(items []core.Item) {
	blocked := map[string]bool{}
	for i := range items {
		it := &items[i]
		switch {
		case it.Dead:
			add(&c.Dead, it, c.dead)
			if it.Blocking && it.Key != nil {
				blocked[string(it.Key)] = true
			}
		default:
			add(&c.Parked, it, c.parked)
			if it.Since > 0 {
				c.Failing++
			}
			if it.Key != nil && blocked[string(it.Key)] {
				c.Blocked++
			}
		}
	}
}

func add(h *api.Heap, it *core.Item, keys map[string]bool) {
	h.Records++
	if it.Key != nil && !keys[string(it.Key)] {
		keys[string(it.Key)] = true
		h.Keys++
	}
	if at := api.Millis(it.Timestamp); it.Timestamp > 0 && (h.OldestAt == "" || at < h.OldestAt) {
		h.OldestAt = at
	}
}
