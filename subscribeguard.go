package ringfence

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// What a subscription has parked is named by offsets of its topic, and its group knows nothing of that:
// whoever moved or deleted the group, or a topic, under it would lose records or deliver them out of
// order.

// ofNoSubscription is ErrConflict for the group of a subscription.
func (c *Client) ofNoSubscription(ctx context.Context, group string) error {
	return c.spared(ctx, func(s *SubscriptionInfo) error {
		if s.Group() != group {
			return nil
		}
		return fmt.Errorf("group %q belongs to subscription %q, and has parked records that it knows nothing of; it can't be moved or deleted by itself: %w", group, s.Name, ErrConflict)
	})
}

// inNoSubscription is ErrConflict for a topic that a subscription delivers, or keeps what it parks in.
func (c *Client) inNoSubscription(ctx context.Context, topicName string) error {
	return c.spared(ctx, func(s *SubscriptionInfo) error {
		if !slices.Contains([]string{s.Topic, s.JournalTopic(), s.DeadTopic()}, topicName) {
			return nil
		}
		return fmt.Errorf("topic %q is used by subscription %q: %w", topicName, s.Name, ErrConflict)
	})
}

func (c *Client) spared(ctx context.Context, refuse func(*SubscriptionInfo) error) error {
	all, err := c.Subscriptions(ctx)
	errs := []error{err}
	for _, s := range all {
		errs = append(errs, refuse(s))
	}
	return errors.Join(errs...)
}
