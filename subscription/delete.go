package subscription

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// A subscription is several things in two stores: a definition, groups, internal topics. A deletion first marks
// the definition, so that nothing new begins, then removes the rest, and the definition last. Any later call
// can finish an interrupted one, and a name is free only when nothing of its former owner is left. A topic that
// has the name of an internal topic, but is none, stays as it is.

// ErrDeleting says that a deletion has begun, perhaps by a process that died over it: Delete finishes
// it.
var ErrDeleting = fmt.Errorf("it is being deleted: %w", fault.Conflict)

// Life returns the ID that tells a subscription from others of its name, earlier or later.
func (d *Document) Life() string { return d.Sets[0].ID }

// Delete removes a subscription. It is marked first, so that its members end and none begins; then
// its group goes, its internal topics, and at last its definition. The next call finishes an
// interrupted one. ErrNotFound when there is none.
//
// sure may refuse a deletion that has not begun yet. release removes the group, and its retention hold on the main
// topic; it is called repeatedly.
func (c *Catalog) Delete(ctx context.Context, name string, sure, release func(context.Context, *Document) error) error {
	for life := ""; ; {
		d, version, err := c.load(ctx, name)
		switch {
		case life != "" && (errors.Is(err, fault.NotFound) || err == nil && d.Life() != life):
			return nil // another call has finished it
		case err != nil:
			return err
		case d.State == deleting:
			err = c.finishDelete(ctx, d, version, release)
		default:
			if err = sure(ctx, d); err == nil {
				d.State = deleting
				err = c.store(ctx, d, version)
			}
		}
		if err != nil && !errors.Is(err, errRaced) {
			return err
		}
		life = d.Life()
	}
}

func (c *Catalog) finishDelete(ctx context.Context, d *Document, version registry.Version, release func(context.Context, *Document) error) error {
	all, err := c.whole(ctx, d)
	if err == nil {
		err = release(ctx, all)
	}
	if err == nil {
		err = c.dropAll(ctx, all.All()...)
	}
	if err != nil {
		return err
	}
	key := prefix + d.Name
	_, err = c.reg.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: key, Version: version}}, Deletes: []string{key}})
	return raced(ctx, err)
}

// dropAll removes the internal topics of sets, each given by its definition, and those that they share.
func (c *Catalog) dropAll(ctx context.Context, sets ...*Document) error {
	for _, d := range sets {
		own, shared := d.partsOf()
		if err := c.dropParts(ctx, d.Name, slices.Concat(own, shared)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) dropParts(ctx context.Context, subscription string, parts []part) error {
	for _, p := range parts {
		if err := c.dropTopic(ctx, subscription, p.name); err != nil {
			return err
		}
	}
	return nil
}

// dropTopic removes an internal topic of a subscription, if it is one. A topic that has the name of one, and another
// owner, stays.
func (c *Catalog) dropTopic(ctx context.Context, subscription, name string) error {
	switch err := c.parts(subscription).Delete(ctx, name); {
	case errors.Is(err, topic.ErrNotPart):
		c.kept(name, err)
	case err == nil:
		c.gone(name)
	case !errors.Is(err, fault.NotFound):
		return err
	}
	return nil
}

// DeleteDamaged removes an unusable definition. ErrConflict when it has become usable.
func (c *Catalog) DeleteDamaged(ctx context.Context, name string) error {
	key := prefix + name
	for {
		e, err := c.reg.Get(ctx, key)
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := decodeDocument(e); err == nil {
			return fmt.Errorf("subscription %q was made anew meanwhile: %w", name, fault.Conflict)
		}
		_, err = c.reg.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: key, Version: e.Version}}, Deletes: []string{key}})
		if err = raced(ctx, err); !errors.Is(err, errRaced) {
			return err
		}
	}
}

// Has reports whether a subscription exists, in any state, and has that set.
func (c *Catalog) Has(ctx context.Context, name, set string) (bool, error) {
	d, _, err := c.load(ctx, name)
	if errors.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && d.Has(set), err
}

// DeleteStrays removes a subscription's internal topics whose sets are in no definition, and returns their
// number; with an ID only those of that subscription. A set is stored in a definition before its topics are made, so no
// topic of a live set is taken for a stray.
func (c *Catalog) DeleteStrays(ctx context.Context, name, id string) (n int, _ error) {
	topics, err := c.parts(name).List(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range topics {
		set, ok := setOf(name, t.Name)
		if !ok { // no subscription makes such a topic: its definition is wrong about its owner
			c.kept(t.Name, fmt.Errorf("topic %q is called as no part of %s is: %w", t.Name, owner(name), topic.ErrNotPart))
			continue
		}
		if id != "" && lifeOf(t, set) != id {
			continue
		}
		if has, err := c.Has(ctx, name, set); err != nil || has {
			return n, err
		}
		if err := c.dropTopic(ctx, name, t.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// abandon removes what a creation has made for a subscription that was deleted meanwhile.
func (c *Catalog) abandon(ctx context.Context, d *Document) error {
	have, _, err := c.load(ctx, d.Name)
	if errors.Is(err, fault.NotFound) || err == nil && have.Life() != d.Life() {
		return c.dropAll(ctx, d.All()...)
	}
	return err
}

// errRaced is a write that did not happen, or may not have: look again.
var errRaced = errors.New("the definition changed meanwhile, or the answer was lost")

func raced(ctx context.Context, err error) error {
	if errors.Is(err, fault.Conflict) || errors.Is(err, fault.Unknown) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errRaced, err)
	}
	return err
}

func (c *Catalog) store(ctx context.Context, d *Document, version registry.Version, under ...registry.Check) error {
	key := prefix + d.Name
	_, err := c.reg.Txn(ctx, registry.Txn{
		Checks: append([]registry.Check{{Key: key, Version: version}}, under...), Puts: []registry.Put{{Key: key, Value: registry.Encode(d)}},
	})
	return raced(ctx, err)
}

const (
	followSweep = 30 * time.Second // between two looks when no hint came
	followRetry = time.Second      // after a failure
)

// Follow passes the stored definition of d to seen, once at first and when it may have changed. It returns nil when
// ctx ends, ErrNewer when a newer version has changed the definition, and ErrNotFound when the subscription is
// deleted, even if another has its name by then. A registry that does not answer proves no deletion.
func (c *Catalog) Follow(ctx context.Context, d *Document, logger *slog.Logger, seen func(*Document)) error {
	for lost := false; ctx.Err() == nil; {
		hints, err := c.reg.Watch(ctx, prefix+d.Name)
		for err == nil {
			var now *Document
			if now, err = c.there(ctx, d); err == nil && now == nil {
				return fmt.Errorf("subscription %q was deleted: %w", d.Name, fault.NotFound)
			}
			if err == nil {
				seen(now)
				lost = false
				if !hint(ctx, hints) {
					break
				}
			}
		}
		if errors.Is(err, ErrNewer) {
			return err
		}
		if err != nil && !lost && ctx.Err() == nil {
			lost = true
			logger.Warn("the definition of the subscription can't be followed: its deletion, and a pause, are not heard of", "subscription", d.Name, "error", err)
		}
		_ = hint(ctx, time.After(followRetry))
	}
	return nil
}

// hint waits until something may have changed; false: no more hints come.
func hint[T any](ctx context.Context, hints <-chan T) (ok bool) {
	select {
	case _, ok = <-hints:
	case <-time.After(followSweep):
		ok = true
	case <-ctx.Done():
	}
	return ok
}

// there returns the subscription as it is stored now; nil: it is another one, or is being deleted.
func (c *Catalog) there(ctx context.Context, d *Document) (*Document, error) {
	have, _, err := c.load(ctx, d.Name)
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil || have.Life() != d.Life() || have.State == deleting {
		return nil, err
	}
	return have, nil
}
