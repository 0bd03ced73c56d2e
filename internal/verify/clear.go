package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// The end of a run on stores that stay removes what it made, also when a connection is cut meanwhile.

const (
	clearing  = 2 * time.Minute  // until all is removed
	clearLast = 30 * time.Second // for one try, so that one that hangs is not the last
	clearEach = 200 * time.Millisecond
)

// clear removes topic, subscription and group, closes the stores, and says what is left behind.
func (c *crew) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), clearing)
	defer cancel()
	var errs []error
	if c.subscription {
		err := again(ctx, clearEach, func(ctx context.Context) error {
			return c.rf.Admin().DeleteSubscription(ctx, c.group, &admin.DeleteSubscriptionOptions{Force: true})
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("subscription %s is left behind; \"ringfence subscription delete %s --force\" removes it: %w", c.group, c.group, err))
		}
	}
	err := again(ctx, clearEach, func(ctx context.Context) error {
		return c.rf.Admin().DeleteTopic(ctx, c.topic, &admin.DeleteTopicOptions{Force: true})
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("topic %s and group %s are left behind; \"ringfence topic delete %s --force\" removes both: %w", c.topic, c.group, c.topic, err))
	}
	return errors.Join(append(errs, c.rf.Close())...)
}

// again removes something, and tries it again while the store is away. What is not there was removed.
func again(ctx context.Context, every time.Duration, remove func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, clearLast)
		err := remove(once)
		cancel()
		switch {
		case err == nil, errors.Is(err, ringfence.ErrNotFound):
			return nil
		case !Away(err):
			return err
		}
		if pause(ctx, every) != nil {
			return err
		}
	}
}
