package subscription

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// noOrder is the error without an order: no record waits for another one, and what is parked has no key there.
func noOrder(d *Document) error {
	if d.Order != None {
		return nil
	}
	return fmt.Errorf("subscription %q has the order %q: no key holds a record back, and each is tried again by itself; \"ringfence subscription dead-letters %s list --key\" (Client.DeadLetters) shows those of a key that were given up: %w", d.Name, d.Order, d.Name, fault.Invalid)
}

// Why explains why records of a key are not delivered: one api.BlockedKey for each shard with parked records
// of it. With none, its records are delivered as they come; a failing one is held in memory for a while
// before it is parked, and only its owner knows of that. With an error, the result has what could be read;
// fault.Invalid for a subscription without an order.
func (c *Subscriptions) Why(ctx context.Context, name string, key []byte) ([]api.BlockedKey, error) {
	j, err := c.journals(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := noOrder(j.Definition); err != nil {
		return nil, err
	}
	states, err := j.keyStates(ctx, key)
	if len(states) == 0 {
		return nil, err
	}
	g, failed := c.DescribeGroup(ctx, j.Definition.Group())
	if failed != nil && !errors.Is(failed, fault.NotFound) {
		err = errors.Join(err, failed)
	}
	all := make([]api.BlockedKey, len(states))
	for i, l := range states {
		b := api.BlockedKey{
			Shard: l.Shard, ID: l.Head.ID.String(), Status: "retrying", Followers: l.Parked - 1,
			Attempts: l.Head.Attempts, Answer: l.Head.Answer, FailedAt: api.Millis(max(0, l.Head.Since)),
		}
		if l.Head.Dead {
			b.Status, b.Reason, b.Ordered = "failed", l.Head.Reason.String(), decided[l.Head.Order]
		} else {
			b.Due = api.Millis(l.Head.Due)
			if b.FailedAt == "" && b.Attempts == 0 && b.Due != "" {
				b.Status = "delayed"
			}
		}
		for _, u := range g.Units {
			if u.Unit == l.Shard {
				b.Owner, b.Epoch = u.Owner, u.Epoch
			}
		}
		all[i] = b
	}
	return all, err
}

// keyState is what one shard has parked of a key.
type keyState struct {
	Shard  int
	Parked int
	Head   core.Item // delivered, or decided about, before the rest
}

// keyStates returns the states of a key by shard, without shards that hold nothing of it back. With an error
// they are those of the shards that could be read.
func (j *journals) keyStates(ctx context.Context, key []byte) ([]keyState, error) {
	return eachShard(j, func(shard int) ([]keyState, error) {
		items, err := j.Items(ctx, shard)
		l := keyState{Shard: shard}
		for _, it := range items {
			if it.Key == nil || !bytes.Equal(it.Key, key) || it.Dead && !it.Blocking {
				continue
			}
			if l.Parked++; l.Parked == 1 {
				l.Head = it
			}
		}
		if l.Parked == 0 {
			return nil, err
		}
		return []keyState{l}, err
	})
}
