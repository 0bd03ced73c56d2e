package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/subscription/core"
)

// Backlog is what a subscription has taken from its topic and holds back. What it has not read yet is the lag
// of its group.
type Backlog struct {
	Parked  Heap // tried again, or behind a record of the key
	Dead    Heap // given up
	Blocked int  // of Parked, those behind one that was given up: they go on when somebody has decided
}

// Heap counts records that are held back.
type Heap struct {
	Records  int
	Keys     int       // of those that have one
	OldestAt time.Time // when the oldest was produced; zero: none, or it is unknown
}

// Backlog counts what a subscription holds back. With an error it counts what could be read.
func (c *Subscriptions) Backlog(ctx context.Context, name string) (*Backlog, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return &Backlog{}, err
	}
	var errs []error
	t := tally{parked: map[string]bool{}, dead: map[string]bool{}}
	for shard := range j.Shards {
		items, err := j.Items(ctx, shard)
		t.count(items)
		if err = errors.Join(err, j.Whole(ctx, shard)); err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", shard, err))
		}
	}
	return &t.Backlog, errors.Join(errs...)
}

// tally counts shard by shard. The records of a key may lie in several.
type tally struct {
	Backlog
	parked, dead map[string]bool // the keys
}

// count adds the items of a shard, in order of their origins.
func (c *tally) count(items []core.Item) {
	blocked := map[string]bool{}
	for i := range items {
		it := &items[i]
		switch {
		case it.Dead:
			c.Dead.add(it, c.dead)
			if it.Blocking && it.Key != nil {
				blocked[string(it.Key)] = true
			}
		default:
			c.Parked.add(it, c.parked)
			if it.Key != nil && blocked[string(it.Key)] {
				c.Blocked++
			}
		}
	}
}

func (h *Heap) add(it *core.Item, keys map[string]bool) {
	h.Records++
	if it.Key != nil && !keys[string(it.Key)] {
		keys[string(it.Key)] = true
		h.Keys++
	}
	if at := time.UnixMilli(it.Timestamp); it.Timestamp > 0 && (h.OldestAt.IsZero() || at.Before(h.OldestAt)) {
		h.OldestAt = at
	}
}
