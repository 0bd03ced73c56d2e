package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/spell"
	"github.com/ringfence/ringfence/topic"
)

// Deleting a subscription with its groups. The order matters: members end first, as the definition is marked;
// then the groups' retention holds on the main topic go; then the groups, the internal topics, and the
// definition. Without a readable definition, the groups and topics are found by their names, and nothing else
// is touched.

// Delete removes a subscription, its progress and its internal topics, for good; its topic stays. Without
// force it is fault.Conflict while it has live members, and while records are parked; a dry run only says
// whether it would be refused.
//
// With an ID only the subscription of that ID goes. One that the registry does not know, and that has records in the log,
// goes by its ID alone: another registry may know it.
//
// It waits until running members have ended. Once it has begun, every call sees the subscription as gone;
// if interrupted, another call, or Ensure, finishes it.
func (c *Subscriptions) Delete(ctx context.Context, name, id string, force, dry bool) error {
	release := c.releaseSubscription
	if dry {
		release = nothing
	}
	err := c.Catalog.Delete(ctx, name, func(ctx context.Context, d *Document) error {
		if id != "" && d.Life() != id {
			return fmt.Errorf("subscription %q has the ID %s; asked for was %s: %w", name, d.Life(), id, fault.Conflict)
		}
		if err := c.deletable(ctx, d, force); err != nil || !dry {
			return err
		}
		return errNothing
	}, release)
	switch {
	case errors.Is(err, errNothing):
		return nil
	case force && !errors.Is(err, ErrNewer) && (errors.Is(err, ErrDamaged) || errors.Is(err, fault.NotFound)):
		return c.deleteRest(ctx, name, id, err, dry)
	}
	return err
}

// deleteRest removes what is left of a subscription whose definition can't be used, as why says: that
// definition, and the groups and internal topics of its name. When there is nothing, why is the error.
func (c *Subscriptions) deleteRest(ctx context.Context, name, id string, why error, dry bool) error {
	damaged := errors.Is(why, ErrDamaged)
	found := damaged
	if !damaged || id != "" {
		var err error
		if found, err = c.checkForgotten(ctx, name, id); err != nil {
			return err
		}
	}
	switch {
	case dry && found:
		return nil
	case dry, id != "" && !found:
		return why
	case damaged:
		c.logger.Warn("force removes a subscription that can't be read, and all that is its", "subscription", name, "error", why)
		if err := c.DeleteDamaged(ctx, name); err != nil {
			return err
		}
	}
	groups, err := protocol.GroupsOf(ctx, c.reg, name+groupMark)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := c.deleteStray(ctx, name, group); err != nil {
			return err
		}
	}
	if err := c.letGoForgotten(ctx, name, id); err != nil { // a damaged group of one is gone by now
		return err
	}
	topics, err := c.DeleteStrays(ctx, name, id)
	if err == nil && topics+len(groups) == 0 && !damaged {
		err = why
	}
	return err
}

// checkForgotten is fault.Conflict when the log has records of a subscription that the registry does not know, unless it
// has the ID that is asked for (found): by that, another registry is not just the wrong one.
func (c *Subscriptions) checkForgotten(ctx context.Context, name, id string) (found bool, _ error) {
	parts, err := c.parts(name).List(ctx)
	for _, p := range parts {
		set, ok := setOf(name, p.Name)
		life := lifeOf(p, set)
		switch {
		case !ok || id != "" && life != id:
		case id == "" && p.Records && !p.Known: // else a deletion was cut short
			return false, fmt.Errorf("subscription %q: the registry does not know it, and the log has records of one (ID %s, in topic %q): check the URLs, as another registry may know it; if they are right, ringfence subscription create goes on with it, and subscription delete --force --id %s drops what it has parked: %w", name, life, p.Name, life, fault.Conflict)
		default:
			found = true
		}
	}
	return found, err
}

// lifeOf is the ID of the subscription that an internal topic of a set is a part of.
func lifeOf(p topic.Part, set string) string {
	var n note
	if json.Unmarshal([]byte(p.Note), &n) == nil && isSetID(n.Life) {
		return n.Life
	}
	return set // the ID of a subscription is that of its first set
}

// letGoForgotten ends the retention holds of the sets that only the log knows; with an ID only of that subscription.
func (c *Subscriptions) letGoForgotten(ctx context.Context, name, id string) error {
	sets, err := c.inLog(ctx, name)
	for _, n := range sets {
		if id != "" && n.Life != id {
			continue
		}
		if has, err := c.Has(ctx, name, n.Set.ID); err != nil || has {
			return err
		}
		g, err := protocol.NewGroup(c.reg, name+groupMark+n.Set.ID)
		if err == nil {
			err = c.letGo(ctx, g, n.Topic)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// deleteStray removes a group of a subscription's name, unless the subscription has been made anew and
// owns the group.
func (c *Subscriptions) deleteStray(ctx context.Context, name, group string) error {
	_, set, _ := OfGroup(group)
	if has, err := c.Has(ctx, name, set); err != nil || has {
		return err
	}
	g, err := protocol.NewGroup(c.reg, group)
	if err != nil {
		return err
	}
	topicName := ""
	switch meta, err := g.Meta(ctx); {
	case err == nil:
		topicName = meta.Topic
	case errors.Is(err, fault.Corrupt), errors.Is(err, fault.Invalid): // it is damaged too, or of a newer version
		return c.groups.Destroy(ctx, group)
	case !errors.Is(err, fault.NotFound): // or it is half deleted
		return err
	}
	if topicName != "" { // before too: afterwards the topic may be unknown
		if err := c.letGo(ctx, g, topicName); err != nil {
			return err
		}
	}
	if err := c.endGroup(ctx, name, g); err != nil || topicName == "" {
		return err
	}
	return c.letGo(ctx, g, topicName)
}

// finishDeletion finishes a begun deletion, unless another call did.
func (c *Subscriptions) finishDeletion(ctx context.Context, name string) error {
	err := c.Catalog.Delete(ctx, name, nothing, c.releaseSubscription)
	if errors.Is(err, errNothing) || errors.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// errNothing ends a deletion that must not be carried out.
var errNothing = errors.New("nothing is to be done")

func nothing(context.Context, *Document) error { return errNothing }

// deletable returns what speaks against deleting a subscription.
func (c *Subscriptions) deletable(ctx context.Context, d *Document, force bool) error {
	if err := c.partsOfNewer(ctx, d); err != nil || force {
		return err
	}
	for _, set := range d.Serving() {
		switch g, err := c.DescribeGroup(ctx, set.Group()); {
		case errors.Is(err, fault.NotFound): // no member has run yet
		case err != nil:
			return fmt.Errorf("whether subscription %q has live members is unknown; --force (Force in Go) deletes it all the same: %w", d.Name, err)
		case len(g.Members) > 0:
			return fmt.Errorf("subscription %q has live members (%d, %q among them); stop them first, or let --force (Force in Go) end them: %w", d.Name, len(g.Members), g.Members[0].ID, fault.Conflict)
		}
	}
	b, err := c.Backlog(ctx, d.Name)
	switch {
	case errors.Is(err, fault.NotFound): // it is half made
	case err != nil:
		return fmt.Errorf("what subscription %q has parked is unknown; --force (Force in Go) deletes it all the same: %w", d.Name, err)
	case b.Parked.Records+b.Dead.Records > 0:
		return fmt.Errorf("subscription %q has %s and %s, which would never be delivered; --force (Force in Go) drops them: %w",
			d.Name, spell.Plural(int64(b.Parked.Records), "parked record"), spell.Plural(int64(b.Dead.Records), "dead letter"), fault.Conflict)
	}
	return nil
}

// partsOfNewer is fault.Newer if a newer version wrote the topic or a group of a subscription: its deletion could not be
// finished, and must not begin.
func (c *Subscriptions) partsOfNewer(ctx context.Context, d *Document) error {
	if _, err := c.topics.Current(ctx, d.Topic); errors.Is(err, fault.Newer) {
		return err
	}
	for _, set := range d.All() {
		g, err := protocol.NewGroup(c.reg, set.Group())
		if err == nil {
			_, err = g.Meta(ctx)
		}
		if errors.Is(err, fault.Newer) {
			return err
		}
	}
	return nil
}

// releaseSubscription removes the group of a subscription once its members have ended, and its retention
// hold on the main topic.
func (c *Subscriptions) releaseSubscription(ctx context.Context, d *Document) error {
	for _, set := range d.All() {
		g, err := protocol.NewGroup(c.reg, set.Group())
		if err == nil {
			err = c.endGroup(ctx, d.Name, g)
		}
		if err == nil {
			err = c.letGo(ctx, g, d.Topic)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endGroup removes a group of a subscription once its members have ended.
func (c *Subscriptions) endGroup(ctx context.Context, name string, g *protocol.Group) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := g.Delete(ctx); !errors.Is(err, fault.Conflict) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("subscription %q is being deleted, and still has live members; repeat it when they have ended: %w", name, ctx.Err())
		}
	}
}

// letGo ends the retention hold of a group on a topic.
func (c *Subscriptions) letGo(ctx context.Context, g *protocol.Group, topicName string) error {
	switch t, err := c.topics.Current(ctx, topicName); {
	case errors.Is(err, fault.NotFound), errors.Is(err, fault.Conflict): // it is gone, or has moved away: it holds nothing
		return nil
	case err != nil:
		return err
	default:
		return consumer.ReleaseHold(ctx, g, t)
	}
}

// deleteGroup removes the group of a set, and its retention hold on the main topic.
func (c *Subscriptions) deleteGroup(ctx context.Context, set *Document) error {
	g, err := protocol.NewGroup(c.reg, set.Group())
	if err == nil {
		err = g.Delete(ctx)
	}
	if err == nil {
		err = c.letGo(ctx, g, set.Topic)
	}
	return err
}

// leaveDeleted removes the group that a member has made anew because it began before the
// subscription was deleted, and its retention hold. While the group has other members, the last of
// them does.
func (c *Subscriptions) leaveDeleted(ctx context.Context, d *Document) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.deleteGroup(ctx, d); err != nil && !errors.Is(err, fault.Conflict) {
		c.logger.Warn("what is left of the group of a deleted subscription could not be removed: group delete does that", "subscription", d.Name, "group", d.Group(), "error", err)
	}
}
