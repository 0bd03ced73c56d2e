package subscription

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// The reshard, as far as it is in the definition: a set is written down, then its topics are made; then it
// delivers, and the set before it ends; when that is needed no more, it is retired. Every member can
// repeat each step. What the shards do is in handover.go; ARCHITECTURE.md gives the whole picture.

// RetiredFor is how long the topics of a retired set stay: a registry that goes back may need them.
const RetiredFor = time.Hour

func (c *Catalog) mayReshard(ctx context.Context, d *Document, shards int) error {
	main, err := c.mayTurn(ctx, d)
	if err != nil {
		return err
	}
	if err := CheckShards(shards, main.Storage[d.Set().Storage].Partitions); err != nil {
		return err
	}
	return d.Limits.CheckShards(d.Name, shards)
}

// mayTurn checks that a reshard may begin, and returns the topic.
func (c *Catalog) mayTurn(ctx context.Context, d *Document) (*topic.Document, error) {
	main, err := c.main(ctx, d.Topic)
	if err == nil {
		if err = d.shares(main); err != nil {
			err = fmt.Errorf("subscription %q: %w", d.Name, err)
		}
	}
	switch {
	case err != nil:
	case len(d.Sets) >= maxSets:
		err = fmt.Errorf("subscription %q: %d reshards in the last hour, and what those sets have left stays for one; repeat this later: %w", d.Name, maxSets-1, fault.Conflict)
	case d.Turning():
		err = fmt.Errorf("subscription %q: a reshard is under way; its members finish it, so repeat this then: %w", d.Name, fault.Conflict)
	}
	return main, err
}

// Reshard begins a reshard, and returns the definition as it is stored. The members do the rest. A definition that
// has that many shards already is returned unchanged.
func (c *Catalog) Reshard(ctx context.Context, of *Document, shards int) (*Document, error) {
	d, err := c.change(ctx, of.Name, func(d *Document) (bool, error) {
		if d.Life() != of.Life() {
			return false, d.isAnother()
		}
		if err := c.mayReshard(ctx, d, shards); err != nil || d.Set().Shards == shards {
			return false, err
		}
		d.Sets = append(d.Sets, d.nextSet(shards, d.Set().Storage))
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return c.Advance(ctx, d)
}

func newSet(n, shards int, state string) Set {
	s := Set{Set: n, ID: strings.ToLower(rand.Text()[:setIDBytes]), Shards: shards, State: state}
	if n > 0 {
		s.Since = time.Now().UnixMilli()
	}
	return s
}

// nextSet returns the set that follows all others.
func (d *Document) nextSet(shards, storage int) Set {
	s := newSet(d.Sets[len(d.Sets)-1].Set+1, shards, making)
	s.Storage = storage
	return s
}

// Advance makes the topics of a set in the making; then that set delivers, and the one before it ends.
func (c *Catalog) Advance(ctx context.Context, d *Document) (*Document, error) {
	next := d.Sets[len(d.Sets)-1]
	if next.State != making {
		return d, nil
	}
	main, err := c.main(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	as := d.As(next)
	if err := c.takeUp(ctx, as); err != nil { // they exist if the registry forgot this set, and a journal named it (Restore)
		return nil, c.unlessDeleted(ctx, as, err)
	}
	out, err := c.changeSets(ctx, d, func(now *Document) bool {
		last := &now.Sets[len(now.Sets)-1]
		if last.ID != next.ID || last.State != making {
			return false
		}
		at := time.Now().UnixMilli()
		for i := range now.Sets {
			s := &now.Sets[i]
			switch {
			case s.State != active:
			case now.As(*s).Gone(main): // it has no shards that could end
				s.State, s.Since = retired, at
			default:
				s.State, s.Since = closing, at
			}
		}
		last.State, last.Since = active, at
		return true
	})
	if err != nil {
		return nil, c.unlessDeleted(ctx, as, err)
	}
	return out, nil
}

// unlessDeleted passes on err, for which a set is not made. If the subscription is gone or being deleted,
// what was made for the set is removed: the deletion may have looked before it existed.
func (c *Catalog) unlessDeleted(ctx context.Context, as *Document, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout) // the deletion may have ended ctx
	defer cancel()
	have, _, unread := c.load(ctx, as.Name)
	switch {
	case unread == nil && have.Life() == as.Life() && have.State != deleting:
		return err // another caller goes on with it
	case unread != nil && !errors.Is(unread, fault.NotFound):
		return err
	}
	return errors.Join(err, c.dropAll(ctx, as))
}

const clearTimeout = 5 * time.Second

// Retire marks a closing set as needed no more.
func (c *Catalog) Retire(ctx context.Context, d *Document, set string) (*Document, error) {
	return c.changeSets(ctx, d, func(now *Document) bool {
		i := slices.IndexFunc(now.Sets, func(s Set) bool { return s.ID == set && s.State == closing })
		if i >= 0 {
			now.Sets[i].State, now.Sets[i].Since = retired, time.Now().UnixMilli()
			now.Sets[i].Starts, now.Sets[i].Shed = nil, false // its shards began long ago
		}
		return i >= 0
	})
}

// NotePause stores how long a shard of the active set delivered nothing, if that is the longest.
func (c *Catalog) NotePause(ctx context.Context, d *Document, pause time.Duration) error {
	ms := max(1, pause.Milliseconds())
	_, err := c.changeSets(ctx, d, func(now *Document) bool {
		i := slices.IndexFunc(now.Sets, func(s Set) bool { return s.ID == d.Set().ID })
		if i < 0 || now.Sets[i].Pause >= ms {
			return false
		}
		now.Sets[i].Pause = ms
		return true
	})
	return err
}

// Spent returns the sets that were retired long enough ago for their topics and groups to go.
func (d *Document) Spent(now time.Time) (all []*Document) {
	for _, s := range d.Sets {
		if s.State == retired && !s.gone() && now.Sub(time.UnixMilli(s.Since)) >= RetiredFor {
			all = append(all, d.As(s))
		}
	}
	return all
}

// gone reports a first set whose topics went. Its ID stays: it is the ID of the subscription.
func (s Set) gone() bool { return s.State == retired && s.Since == 0 }

// Forget removes the topics of a retired set, and the set from the definition. The caller removes its
// group.
func (c *Catalog) Forget(ctx context.Context, d *Document, set *Document) error {
	own, _ := set.partsOf()
	if err := c.dropParts(ctx, set.Name, own); err != nil {
		return err
	}
	_, err := c.changeSets(ctx, d, func(now *Document) bool {
		i := slices.IndexFunc(now.Sets, func(s Set) bool { return s.ID == set.Set().ID && s.State == retired })
		switch {
		case i < 0:
			return false
		case i == 0:
			now.Sets[0].Since = 0
		default:
			now.Sets = slices.Delete(now.Sets, i, i+1)
		}
		return true
	})
	return err
}

// changeSets is change, for the subscription with d's ID.
func (c *Catalog) changeSets(ctx context.Context, d *Document, f func(*Document) bool) (*Document, error) {
	return c.change(ctx, d.Name, func(now *Document) (bool, error) {
		if now.Life() != d.Life() {
			return false, fmt.Errorf("subscription %q was deleted: %w", d.Name, fault.NotFound)
		}
		return f(now), nil
	})
}

// canDeliver checks that the set named by a journal fits the topic as the registry has it: that may have gone back.
func (s *Set) canDeliver(main *topic.Document) error {
	if s.Storage < main.Left() || s.Storage >= len(main.Storage) {
		return fmt.Errorf("%s delivers storage topic %d, and topic %q has %d to %d", s.ID, s.Storage, main.Name, main.Left(), len(main.Storage)-1)
	}
	return CheckShards(s.Shards, main.Storage[s.Storage].Partitions)
}

// Restore puts the set that a journal's end names into the definition, unless it is there. A registry that
// went back has forgotten a reshard which the journals know of.
func (c *Catalog) Restore(ctx context.Context, d *Document, next Set) (*Document, error) {
	main, err := c.main(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	if next.canDeliver(main) != nil { // the registry may have forgotten that the topic has grown
		if main, err = c.topics.CatchUp(ctx, d.Topic); err != nil {
			return nil, err
		}
	}
	if err := next.canDeliver(main); err != nil {
		return nil, fmt.Errorf("subscription %q: a journal ends with a shard set that can't go on: %w; compare the registry with the log (ringfence topic check %s): %w", d.Name, err, d.Topic, fault.Corrupt)
	}
	return c.changeSets(ctx, d, func(now *Document) bool {
		last := now.Sets[len(now.Sets)-1]
		if now.Turning() || last.ID != d.Set().ID || next.Set <= last.Set || slices.ContainsFunc(now.Sets, func(s Set) bool { return s.ID == next.ID }) {
			return false
		}
		next.State, next.Since, next.Pause = making, time.Now().UnixMilli(), 0
		now.Sets = append(now.Sets, next)
		return true
	})
}

// Reshard changes the number of shards while the subscription delivers; a dry run only says what that would
// do. Members carry it out, now or when there are some. fault.Conflict while an earlier change is under
// way; fault.Invalid for a number that is too high.
func (c *Subscriptions) Reshard(ctx context.Context, name string, shards int, dry bool) (*api.Reshard, error) {
	d, err := c.Get(ctx, name)
	if err == nil {
		err = c.mayReshard(ctx, d, shards)
	}
	if err != nil {
		return nil, err
	}
	main, err := c.topics.Catalog().Get(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	out := &api.Reshard{Name: name, From: d.Set().Shards, To: shards, Shards: []api.NewShard{}}
	if out.From == out.To {
		return out, nil
	}
	next := d.Set()
	next.Shards = shards
	out.Shards = newShards(main, d.Set(), next)
	j, err := c.journalsOf(ctx, d)
	if err == nil {
		out.Parked, err = j.parkedRecords(ctx)
	}
	if err != nil || dry {
		return out, err
	}
	_, err = c.Catalog.Reshard(ctx, d, shards)
	out.Begun = err == nil
	return out, err
}

// newShards returns the shards of the next set, for people.
func newShards(main *topic.Document, before, next Set) []api.NewShard {
	all := make([]api.NewShard, next.Shards)
	h := parentsOf(main, before, next)
	partitions := main.Storage[next.Storage].Partitions
	for p := range partitions {
		s := &all[topic.Shard(p, partitions, next.Shards)]
		s.Partitions = append(s.Partitions, p)
	}
	for i := range all {
		all[i].Shard, all[i].After = i, h.After[i]
	}
	return all
}

// DescribeGroup describes any group with its members, units and lag. It needs no live member.
func (c *Subscriptions) DescribeGroup(ctx context.Context, name string) (api.Group, error) {
	layout, err := c.layoutOf(ctx, name)
	if err != nil {
		return api.Group{}, err
	}
	info, err := layout.Describe(ctx, c.reg, name, c.topics.Current)
	if err == nil {
		info.Later, err = c.later(ctx, name, info.Topic)
		info.Lag += info.Later
	}
	return info, err
}

// later counts the records behind the storage topic that a subscription's group delivers: no group reads
// those yet.
func (c *Subscriptions) later(ctx context.Context, group, topicName string) (n int64, _ error) {
	name, set, ok := OfGroup(group)
	if !ok {
		return 0, nil
	}
	d, err := c.Get(ctx, name)
	switch {
	case errors.Is(err, fault.NotFound), errors.Is(err, ErrDamaged), err == nil && d.Set().ID != set:
		return 0, nil // it is half deleted, or unknown
	case err != nil:
		return 0, err
	}
	t, err := c.topics.Current(ctx, topicName)
	if err != nil {
		return 0, err
	}
	for storage := d.Set().Storage + 1; storage < len(t.Document().Storage); storage++ {
		log, err := t.Storage(storage)
		if err != nil {
			return 0, err
		}
		for p := range t.Document().Storage[storage].Partitions {
			b, err := log.Bounds(ctx, p)
			if err != nil {
				return 0, err
			}
			n += b.Next - b.First
		}
	}
	return n, nil
}

// layoutOf returns how the units of a group read its topic.
func (c *Subscriptions) layoutOf(ctx context.Context, group string) (consumer.Layout, error) {
	name, set, ok := OfGroup(group)
	if !ok {
		return consumer.Layout{}, nil
	}
	d, err := c.Get(ctx, name)
	if errors.Is(err, fault.Invalid) || errors.Is(err, fault.Corrupt) {
		return consumer.Layout{}, nil
	}
	var main *topic.Document
	if err == nil {
		main, err = c.topics.Catalog().Get(ctx, d.Topic)
	}
	if errors.Is(err, fault.NotFound) {
		return consumer.Layout{}, nil // it is half deleted
	}
	if err != nil {
		return consumer.Layout{}, err
	}
	for _, s := range d.Sets {
		if s.ID == set && s.Storage < len(main.Storage) && s.Shards <= main.Storage[s.Storage].Partitions {
			return consumer.Shards(s.Storage, s.Shards, main.Storage[s.Storage].Partitions), nil
		}
	}
	return consumer.Layout{}, nil
}
