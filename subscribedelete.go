package ringfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
)

// DeleteSubscriptionOptions are the options of DeleteSubscription.
type DeleteSubscriptionOptions struct {
	// Force deletes also while members run, which end with ErrNotFound, and while records are parked
	// or dead letters: those are not delivered any more.
	Force bool
	// DryRun only says whether it would be refused.
	DryRun bool
}

// DeleteSubscription removes a subscription, its progress and its internal topics, for good; its topic
// stays. Without Force it is ErrConflict while it has live members, and while something is parked.
//
// It waits until members that still run have ended. Once it has begun, the subscription is not there
// any more for anybody; when it was interrupted, another call, or EnsureSubscription, finishes it.
func (c *Client) DeleteSubscription(ctx context.Context, name string, opts *DeleteSubscriptionOptions) error {
	if opts == nil {
		opts = &DeleteSubscriptionOptions{}
	}
	err := c.subscriptions().Delete(ctx, name, subscription.Deletion{
		Gone: c.topics.Forget, Kept: c.tellKept,
		Sure: func(ctx context.Context, d *SubscriptionInfo) error {
			if err := c.deletable(ctx, d, opts.Force); err != nil || !opts.DryRun {
				return err
			}
			return errNothing
		},
		Release: func(ctx context.Context, d *SubscriptionInfo) error {
			if opts.DryRun {
				return errNothing
			}
			return c.releaseSubscription(ctx, d)
		},
	})
	switch {
	case errors.Is(err, errNothing):
		return nil
	case opts.Force && (errors.Is(err, subscription.ErrDamaged) || errors.Is(err, ErrNotFound)):
		return c.deleteRest(ctx, name, err, opts.DryRun)
	}
	return err
}

// deleteRest removes what there is of a subscription that has no definition which could be used, as why
// says: that definition, and the groups and internal topics that go by its name. When there is nothing,
// why is the error.
func (c *Client) deleteRest(ctx context.Context, name string, why error, dry bool) error {
	damaged := errors.Is(why, subscription.ErrDamaged)
	if damaged && !dry {
		if err := c.subscriptions().DeleteDamaged(ctx, name); err != nil {
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
	topics, err := c.subscriptions().DeleteStrays(ctx, name, subscription.Deletion{Gone: c.topics.Forget, Kept: c.tellKept})
	if err == nil && topics+len(groups) == 0 && !damaged {
		err = why
	}
	return err
}

// deleteStray removes a group that goes by the name of a subscription, unless that has been made anew and
// the group is its.
func (c *Client) deleteStray(ctx context.Context, name, group string) error {
	_, set, _ := subscription.OfGroup(group)
	if has, err := c.subscriptions().Has(ctx, name, set); err != nil || has {
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
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCorrupt): // it is half deleted, or damaged too
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
func (c *Client) finishDeletion(ctx context.Context, name string) error {
	err := c.subscriptions().Delete(ctx, name, subscription.Deletion{
		Gone:    c.topics.Forget,
		Kept:    c.tellKept,
		Sure:    func(context.Context, *SubscriptionInfo) error { return errNothing },
		Release: c.releaseSubscription,
	})
	if errors.Is(err, errNothing) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// tellKept is told of a topic that a deletion leaves, though it goes by the name of the subscription.
func (c *Client) tellKept(topicName string, why error) {
	c.logger.Warn("a topic that goes by the name of the subscription is not its own, and stays as it is", "topic", topicName, "error", why)
}

// errNothing ends a deletion that is not to be done.
var errNothing = errors.New("nothing is to be done")

// deletable says what speaks against the deletion of a subscription.
func (c *Client) deletable(ctx context.Context, d *SubscriptionInfo, force bool) error {
	if force {
		return nil
	}
	for _, set := range d.Serving() {
		switch g, err := c.DescribeGroup(ctx, set.Group()); {
		case errors.Is(err, ErrNotFound): // nobody has delivered yet
		case err != nil:
			return fmt.Errorf("nobody knows whether subscription %q has live members; --force (Force in Go) deletes it all the same: %w", d.Name, err)
		case len(g.Members) > 0:
			return fmt.Errorf("subscription %q has live members (%d, %q among them); stop them first, or let --force (Force in Go) end them: %w", d.Name, len(g.Members), g.Members[0].ID, ErrConflict)
		}
	}
	j, err := c.journals(ctx, d.Name)
	n := 0
	if err == nil {
		n, err = j.Parked(ctx)
	}
	switch {
	case errors.Is(err, ErrNotFound): // it is half made
	case err != nil:
		return fmt.Errorf("nobody knows what subscription %q has parked; --force (Force in Go) deletes it all the same: %w", d.Name, err)
	case n > 0:
		return fmt.Errorf("subscription %q has %d parked records and dead letters, which would never be delivered; --force (Force in Go) drops them: %w", d.Name, n, ErrConflict)
	}
	return nil
}

// releaseSubscription removes the group of a subscription once its members have ended, and lets the main
// topic go.
func (c *Client) releaseSubscription(ctx context.Context, d *SubscriptionInfo) error {
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
func (c *Client) endGroup(ctx context.Context, name string, g *registry.Group) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := g.Delete(ctx); !errors.Is(err, ErrConflict) {
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
func (c *Client) letGo(ctx context.Context, group, topicName string) error {
	switch t, err := c.topics.Current(ctx, topicName); {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict): // it is gone, or has moved away: it holds nothing
		return nil
	case err != nil:
		return err
	default:
		return consumer.ReleaseHold(ctx, group, t)
	}
}

// leaveDeleted removes the group that a member has made anew which began before the subscription was
// deleted. While others are in it, the last of them does.
func (c *Client) leaveDeleted(ctx context.Context, d *SubscriptionInfo) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	g, err := c.reg.Group(d.Group())
	if err == nil {
		err = g.Delete(ctx)
	}
	if err != nil && !errors.Is(err, ErrConflict) {
		c.logger.Warn("what is left of the group of a deleted subscription could not be removed: group delete does that", "subscription", d.Name, "group", d.Group(), "error", err)
	}
}
