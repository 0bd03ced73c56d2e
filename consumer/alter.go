package consumer

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/topic"
)

// AlterOptions are the options of Alter.
type AlterOptions struct {
	DryRun   bool                 // only say what would be done
	Estimate *api.RetentionChange // of a dry run: what is due to go is taken from it, and not computed again
	// Life and From, when not empty, are the topic ID and the retention that were seen.
	Life string
	From *topic.Retention
}

// Alter changes the retention of a topic, and says what is due to go by the new one, see Drops.
// fault.NotFound for a topic of another ID, fault.Conflict for another retention than the one seen.
func (c *Groups) Alter(ctx context.Context, name string, r topic.Retention, o AlterOptions) (*api.RetentionChange, error) {
	t, err := c.Topics.Current(ctx, name)
	if err == nil {
		err = errors.Join(t.Document().CheckHere(), t.Document().CheckPublic(), r.Validate(name))
	}
	if err != nil {
		return nil, err
	}
	change := &api.RetentionChange{Topic: name, Before: api.Retention(t.Document().Retention()), After: api.Retention(r)}
	if o.Estimate != nil {
		change.Drops = o.Estimate.Drops
	} else if change.Drops, err = c.Drops(ctx, t, r); err != nil {
		return nil, err
	}
	if o.DryRun {
		return change, nil
	}
	if _, err := c.Topics.Catalog().Alter(ctx, name, o.Life, o.From, r); err != nil {
		return nil, err
	}
	change.Done = true
	return change, t.Refresh(ctx)
}
