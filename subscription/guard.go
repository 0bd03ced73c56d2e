package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// A subscription names its parked records by offsets of its topic, and its group knows nothing of them.
// A move or deletion of the group, or of a topic, would lose records or deliver them out of order.

// GuardGroup is fault.Conflict for the group of an existing subscription.
func (c *Subscriptions) GuardGroup(ctx context.Context, group string) error {
	name, set, ok := OfGroup(group)
	if !ok {
		return nil
	}
	switch d, err := c.Get(ctx, name); {
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("group %q belongs to subscription %q: %w: %w", group, name, err, fault.Conflict)
	case errors.Is(err, fault.NotFound), errors.Is(err, fault.Invalid), err == nil && !d.Has(set):
		return nil // a deletion left it
	case errors.Is(err, fault.Corrupt):
		return fmt.Errorf("group %q belongs to subscription %q, which can't be read (%w): delete that with --force (Force in Go): %w", group, name, err, fault.Conflict)
	case err != nil:
		return err
	}
	return fmt.Errorf("group %q belongs to subscription %q, and has parked records that it knows nothing of; it can't be moved, paused or deleted by itself; \"ringfence subscription reset %s\" (ResetSubscription in Go) sends it to other records, \"subscription pause\" holds it back, \"subscription delete\" removes it: %w", group, name, name, fault.Conflict)
}

// CheckGroupName is fault.Invalid for a name that subscriptions' groups have.
func CheckGroupName(group string) error {
	name, _, ok := OfGroup(group)
	if !ok {
		return nil
	}
	return fmt.Errorf("group %.80q: expected a name without \"..\", as the groups of subscriptions have it; \"ringfence subscription run %.60s\" (Subscribe in Go) delivers a subscription: %w", group, name, fault.Invalid)
}

// GuardTopic is fault.Conflict for a topic that a subscription delivers, or keeps parked records in. Without
// force, also when a subscription can't be read, as it may. A dry run does not log what force passes over.
func (c *Subscriptions) GuardTopic(ctx context.Context, topicName string, force, dry bool) error {
	all, err := c.Begun(ctx) // a begun creation goes on with the topic as it was
	errs := []error{err}
	for _, s := range all {
		switch {
		case s.Damaged == "" && slices.Contains(s.Topics(), topicName):
			errs = append(errs, fmt.Errorf("topic %q is used by subscription %q, with force too: what that has parked, and its dead letters, go with the topic; first \"ringfence subscription delete %s\" (DeleteSubscription in Go): %w", topicName, s.Name, s.Name, fault.Conflict))
		case s.Damaged == "":
		case s.newer: // it may consume the topic in a way that this version can't see
			errs = append(errs, fmt.Errorf("topic %q may be used by subscription %q: %s: %w", topicName, s.Name, s.Damaged, fault.Conflict))
		case !force:
			errs = append(errs, fmt.Errorf("topic %q may be delivered by subscription %q, which can't be read (%s); --force (Force in Go) goes on without it: %w", topicName, s.Name, s.Damaged, fault.Conflict))
		}
	}
	if err := errors.Join(errs...); err != nil || dry {
		return err
	}
	for _, s := range all {
		if s.Damaged != "" {
			c.logger.Warn("force passes over a subscription that can't be read, and may deliver the topic", "topic", topicName, "subscription", s.Name, "error", s.Damaged)
		}
	}
	return nil
}

// Keep returns the check for an interrupted deletion of a topic: a subscription keeps the topic if it has parked
// records of it. It would take the records of the next topic of that name for those.
func (c *Subscriptions) Keep(topicName string) func(context.Context) error {
	return func(ctx context.Context) error { return c.GuardTopic(ctx, topicName, true, true) }
}

// DeleteTopic removes a topic and its records, for good; with a topic ID only that one. Without force
// it is fault.Conflict while a group has progress in it. A dry run only says whether it would be
// refused.
func (c *Subscriptions) DeleteTopic(ctx context.Context, name, life string, force, dry bool) error {
	if _, err := c.topics.Current(ctx, name); errors.Is(err, fault.Conflict) {
		return err // it moved to another log: the new definition is not ours to delete
	}
	has, err := c.topics.Catalog().Life(ctx, name)
	if err != nil {
		return err
	}
	if life != "" && life != has {
		return fmt.Errorf("topic %q is not the one that was meant: %w", name, topic.ErrAnotherLife)
	}
	inUse := func(ctx context.Context) error {
		if err := c.GuardTopic(ctx, name, force, dry); err != nil {
			return err
		}
		return c.groups.DeleteAllOf(ctx, name, force, dry)
	}
	if err := inUse(ctx); err != nil || dry {
		return err
	}
	// Once more, when no new group can begin: progress stored meanwhile would be taken for progress in the next
	// topic of the name.
	if err := c.topics.Catalog().DeleteUnless(ctx, name, has, inUse); err != nil {
		return err
	}
	c.topics.Forget(name)
	return nil
}
