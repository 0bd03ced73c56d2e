package subscription

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// A registry that went back may have forgotten a subscription, or a reshard so long ago that the journals which name
// the set behind it are gone. The log has the internal topics of the sets that are needed, and each says on its card
// of which set of which subscription it is. The oldest set that the log has goes on: the end of its journal names
// the next one (Restore).

// A log of several servers shows for a moment what was just deleted, or does not show what it has.
const (
	looks     = 3
	lookPause = 300 * time.Millisecond
)

// note is what the card of an internal topic says.
type note struct {
	Life    string `json:"life"`    // of the subscription
	Created int64  `json:"created"` // Unix ms
	Topic   string `json:"topic"`
	Order   Order  `json:"order"`
	Set     Set    `json:"set"` // what never changes of it: number, ID, storage topic, shards
}

// config is that of the internal topics of the set that delivers.
func (d *Document) config() topic.Config {
	s := d.Set()
	b, _ := json.Marshal(note{d.Life(), d.Created, d.Topic, d.Order, Set{Set: s.Set, ID: s.ID, Storage: s.Storage, Shards: s.Shards}}) //nolint:errchkjson // texts and numbers only
	return topic.Config{Partitions: s.Shards, Note: string(b)}
}

// inLog returns the sets of the subscriptions of a name whose journals the log has, the newest subscription first, and
// of each the oldest set.
func (c *Catalog) inLog(ctx context.Context, name string) (sets []note, _ error) {
	parts, err := c.parts(name).List(ctx)
	for _, p := range parts {
		var n note
		if p.InLog && json.Unmarshal([]byte(p.Note), &n) == nil && p.Name == name+"."+n.Set.ID+journalSuffix && isSetID(n.Life) {
			sets = append(sets, n)
		}
	}
	slices.SortFunc(sets, func(a, b note) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(a.Life, b.Life), a.Set.Set-b.Set.Set)
	})
	return sets, err
}

// ofLife is inLog for the subscription of a definition.
func (c *Catalog) ofLife(ctx context.Context, d *Document) ([]note, error) {
	sets, err := c.inLog(ctx, d.Name)
	return slices.DeleteFunc(sets, func(n note) bool { return n.Life != d.Life() }), err
}

// forgotten fills in what the log has of a subscription that the registry has forgotten; false: it has nothing.
func (c *Catalog) forgotten(ctx context.Context, d *Document) (bool, error) {
	var sets []note
	for look := range looks {
		var err error
		if sets, err = c.inLog(ctx, d.Name); err != nil || len(sets) == 0 {
			return false, err
		}
		if look < looks-1 && !hint(ctx, time.After(lookPause)) {
			return false, ctx.Err()
		}
	}
	n := sets[0]
	if n.Topic != d.Topic || n.Order != d.Order {
		return false, fmt.Errorf("subscription %q: the registry has forgotten it, and by its journals in the log it delivers topic %q ordered by %s; asked for was %q by %s; ask for what it was, or use another name: %w",
			d.Name, n.Topic, n.Order, d.Topic, d.Order, fault.Exists)
	}
	n.Set.State = active
	d.Created, d.Sets = n.Created, []Set{n.Set}
	if n.Set.Set > 0 { // the ID of a subscription is that of its first set
		d.Sets = []Set{{ID: n.Life, Shards: n.Set.Shards, State: retired}, n.Set}
	}
	if err := checkSets(d.Sets); err != nil {
		return false, fmt.Errorf("subscription %q: the card of a journal: %w: %w", d.Name, fault.Corrupt, err)
	}
	c.found(d)
	return true, d.Limits.CheckShards(d.Name, n.Set.Shards)
}

// bring brings a definition forward whose journals can't be opened, as the registry went back: to the set that goes
// on by the log. ErrNotFound when the log has none.
func (c *Catalog) bring(ctx context.Context, d *Document) (*Document, error) {
	var sets []note
	for look := range looks {
		var err error
		if sets, err = c.ofLife(ctx, d); err != nil {
			return nil, err
		}
		lacks := func(set *Document) bool {
			return !slices.ContainsFunc(sets, func(n note) bool { return n.Set.ID == set.Set().ID })
		}
		if look == looks-1 || !slices.ContainsFunc(d.Serving(), lacks) {
			break
		}
		if !hint(ctx, time.After(lookPause)) {
			return nil, ctx.Err()
		}
	}
	has := func(id string) bool { return slices.ContainsFunc(sets, func(n note) bool { return n.Set.ID == id }) }
	out, err := c.changeSets(ctx, d, func(now *Document) (changed bool) {
		at := time.Now().UnixMilli()
		if was, ok := now.Closing(); ok && !has(was.ID) {
			now.retire(was.Set, at)
			changed = true
		}
		newer := slices.IndexFunc(sets, func(n note) bool { return n.Set.Set > now.Set().Set })
		if has(now.Set().ID) || newer < 0 {
			return changed
		}
		next := sets[newer].Set
		now.Sets = slices.DeleteFunc(now.Sets, func(s Set) bool { return s.Set >= next.Set })
		now.retire(next.Set, at)
		next.State, next.Since = active, at
		now.Sets = append(now.Sets, next)
		return true
	})
	if err != nil {
		return nil, err
	}
	if !has(out.Set().ID) && len(sets) > 0 {
		return nil, fmt.Errorf("subscription %q: the log has journals of earlier shard sets, and none of set %d, which delivers: it was put back to an earlier state than the registry, or this is another log: check the URLs; if both are right, put back a later copy of the log: %w",
			d.Name, out.Set().Set, fault.NotFound)
	}
	if !has(out.Set().ID) {
		return nil, fmt.Errorf("subscription %q: the log has none of its journals: it was deleted and the registry went back to before that, or this is another log: check the URLs; if both are right, ringfence subscription delete %s frees the name: %w", d.Name, d.Name, fault.NotFound)
	}
	if out.Set().ID != d.Set().ID {
		c.found(out)
	}
	return out, c.takeUp(ctx, out)
}

// retire retires the sets up to that number.
func (d *Document) retire(last int, at int64) {
	for i := range d.Sets {
		if s := &d.Sets[i]; s.Set <= last && s.State != retired {
			s.State, s.Since, s.Starts, s.Shed = retired, at, nil, false
		}
	}
}

// takeUp makes the internal topics of the set that delivers. Those that the log has and the registry has forgotten
// go on.
func (c *Catalog) takeUp(ctx context.Context, d *Document) error {
	own, shared := d.partsOf()
	for _, p := range slices.Concat(own, shared) {
		if _, err := c.parts(d.Name).Ensure(ctx, p.name, p.config); err != nil {
			return err
		}
	}
	return nil
}

// whole is a definition with all sets that the log has of it, for a deletion.
func (c *Catalog) whole(ctx context.Context, d *Document) (*Document, error) {
	sets, err := c.ofLife(ctx, d)
	out := *d
	for _, n := range sets {
		if !d.Has(n.Set.ID) {
			out.Sets = append(slices.Clip(out.Sets), n.Set)
		}
	}
	return &out, err
}
