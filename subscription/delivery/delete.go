package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
)

// Deleting a subscription with its groups. The order matters: members end first, as the definition says that it
// is being deleted; then what the groups hold of the main topic is let go; then the groups go, the internal
// topics, and the definition. Where there is no definition that can be read, what goes by the name is found by
// the names of groups and topics, and nothing else is touched.

// Delete removes a subscription, its progress and its internal topics, for good; its topic stays. Without
// force it is fault.Conflict while it has live members, and while something is parked; a dry run only says
// whether it would be refused.
//
// It waits until members that still run have ended. Once it has begun, the subscription is not there
// any more for anybody; when it was interrupted, another call, or Ensure, finishes it.
func (c *Subscriptions) Delete(ctx context.Context, name string, force, dry bool) error {
	err := c.Catalog.Delete(ctx, name, subscription.Deletion{
		Gone: c.topics.Forget, Kept: c.tellKept,
		Sure: func(ctx context.Context, d *subscription.Document) error {
			if err := c.deletable(ctx, d, force); err != nil || !dry {
				return err
			}
			return errNothing
		},
		Release: func(ctx context.Context, d *subscription.Document) error {
			if dry {
				return errNothing
			}
			return c.releaseSubscription(ctx, d)
		},
	})
	switch {
	case errors.Is(err, errNothing):
		return nil
	case force && (errors.Is(err, subscription.ErrDamaged) || errors.Is(err, fault.NotFound)):
		return c.deleteRest(ctx, name, err, dry)
	}
	return err
}

// deleteRest removes what there is of a subscription that has no definition which could be used, as why
// says: that definition, and the groups and internal topics that go by its name. When there is nothing,
// why is the error.
func (c *Subscriptions) deleteRest(ctx context.Context, name string, why error, dry bool) error {
	damaged := errors.Is(why, subscription.ErrDamaged)
	if damaged && !dry {
		c.logger.Warn("force removes a subscription that can't be read, and all that is its", "subscription", name, "error", why)
		if err := c.DeleteDamaged(ctx, name); err != nil {
			return err
		}
	}
	if dry {
		if damaged {
			return nil
		}
		return why
	}
	groups, err := c.reg.GroupsOf(ctx, subscription.GroupPrefix(name))
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := c.deleteStray(ctx, name, group); err != nil {
			return err
		}
	}
	topics, err := c.DeleteStrays(ctx, name, subscription.Deletion{Gone: c.topics.Forget, Kept: c.tellKept})
	if err == nil && topics+len(groups) == 0 && !damaged {
		err = why
	}
	return err
}

// deleteStray removes a group that goes by the name of a subscription, unless that has been made anew and
// the group is its.
func (c *Subscriptions) deleteStray(ctx context.Context, name, group string) error {
	_, set, _ := subscription.OfGroup(group)
	if has, err := c.Has(ctx, name, set); err != nil || has {
		return err
	}
	g, err := c.reg.Group(group)
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
	if topicName != "" { // before too: afterwards nobody may know the topic
		if err := c.letGo(ctx, group, topicName); err != nil {
			return err
		}
	}
	if err := c.endGroup(ctx, name, g); err != nil || topicName == "" {
		return err
	}
	return c.letGo(ctx, group, topicName)
}

// finishDeletion finishes a deletion that was begun, if it was not finished meanwhile.
func (c *Subscriptions) finishDeletion(ctx context.Context, name string) error {
	err := c.Catalog.Delete(ctx, name, subscription.Deletion{
		Gone:    c.topics.Forget,
		Kept:    c.tellKept,
		Sure:    func(context.Context, *subscription.Document) error { return errNothing },
		Release: c.releaseSubscription,
	})
	if errors.Is(err, errNothing) || errors.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// tellKept is told of a topic that a deletion leaves, though it goes by the name of the subscription.
func (c *Subscriptions) tellKept(topicName string, why error) {
	c.logger.Warn("a topic that goes by the name of the subscription is not its own, and stays as it is", "topic", topicName, "error", why)
}

// errNothing ends a deletion that is not to be done.
var errNothing = errors.New("nothing is to be done")

// deletable says what speaks against the deletion of a subscription.
func (c *Subscriptions) deletable(ctx context.Context, d *subscription.Document, force bool) error {
	if force {
		return nil
	}
	for _, set := range d.Serving() {
		switch g, err := c.DescribeGroup(ctx, set.Group()); {
		case errors.Is(err, fault.NotFound): // nobody has delivered yet
		case err != nil:
			return fmt.Errorf("nobody knows whether subscription %q has live members; --force (Force in Go) deletes it all the same: %w", d.Name, err)
		case len(g.Members) > 0:
			return fmt.Errorf("subscription %q has live members (%d, %q among them); stop them first, or let --force (Force in Go) end them: %w", d.Name, len(g.Members), g.Members[0].ID, fault.Conflict)
		}
	}
	j, err := c.journals(ctx, d.Name)
	n := 0
	if err == nil {
		n, err = j.Parked(ctx)
	}
	switch {
	case errors.Is(err, fault.NotFound): // it is half made
	case err != nil:
		return fmt.Errorf("nobody knows what subscription %q has parked; --force (Force in Go) deletes it all the same: %w", d.Name, err)
	case n > 0:
		return fmt.Errorf("subscription %q has %d parked records and dead letters, which would never be delivered; --force (Force in Go) drops them: %w", d.Name, n, fault.Conflict)
	}
	return nil
}

// releaseSubscription removes the group of a subscription once its members have ended, and lets the main
// topic go.
func (c *Subscriptions) releaseSubscription(ctx context.Context, d *subscription.Document) error {
	for _, set := range d.All() {
		g, err := c.reg.Group(set.Group())
		if err == nil {
			err = c.endGroup(ctx, d.Name, g)
		}
		if err == nil {
			err = c.letGo(ctx, set.Group(), d.Topic)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endGroup removes a group of a subscription once its members have ended.
func (c *Subscriptions) endGroup(ctx context.Context, name string, g *registry.Group) error {
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

// letGo ends what a group holds of a topic.
func (c *Subscriptions) letGo(ctx context.Context, group, topicName string) error {
	switch t, err := c.topics.Current(ctx, topicName); {
	case errors.Is(err, fault.NotFound), errors.Is(err, fault.Conflict): // it is gone, or has moved away: it holds nothing
		return nil
	case err != nil:
		return err
	default:
		g, err := c.reg.Group(group)
		if err != nil {
			return err
		}
		return consumer.ReleaseHold(ctx, g, t)
	}
}

// leaveDeleted removes the group that a member has made anew which began before the subscription was
// deleted, and what that holds of the topic. While others are in it, the last of them does.
func (c *Subscriptions) leaveDeleted(ctx context.Context, d *subscription.Document) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	g, err := c.reg.Group(d.Group())
	if err == nil {
		err = g.Delete(ctx)
	}
	if err == nil {
		err = c.letGo(ctx, d.Group(), d.Topic)
	}
	if err != nil && !errors.Is(err, fault.Conflict) {
		c.logger.Warn("what is left of the group of a deleted subscription could not be removed: group delete does that", "subscription", d.Name, "group", d.Group(), "error", err)
	}
}
