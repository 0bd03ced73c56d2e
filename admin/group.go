package admin

import (
	"context"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/subscription"
)

// ListGroups lists the consumer groups, sorted by name, with their members, without units and lag: it reads no checkpoints.
// A group that can't be read says so in Damaged.
func (c *Client) ListGroups(ctx context.Context) ([]api.Group, error) { return c.groups.List(ctx) }

// MeasureGroups is ListGroups with the lag of each group. It reads all checkpoints.
func (c *Client) MeasureGroups(ctx context.Context) ([]api.Group, error) {
	all, err := c.ListGroups(ctx)
	for i := 0; i < len(all) && err == nil; i++ {
		err = c.measure(ctx, &all[i])
		all[i].Units = nil
	}
	if err != nil {
		return all, err
	}
	return all, c.notePauses(ctx, all)
}

// notePauses marks the groups of paused subscriptions.
func (c *Client) notePauses(ctx context.Context, all []api.Group) error {
	var subs []*api.Subscription
	for i := range all {
		name, _, of := subscription.OfGroup(all[i].Name)
		if !of || all[i].Damaged != "" {
			continue
		}
		if subs == nil {
			var err error
			if subs, err = c.ListSubscriptions(ctx); err != nil {
				return err
			}
		}
		for _, d := range subs {
			if d.Name == name && d.Paused != nil {
				all[i].State, all[i].Paused, all[i].PausedBy, all[i].PausedAt = "paused", true, d.Paused.By, d.Paused.Since
			}
		}
	}
	return nil
}

// DescribeGroup describes a group with its members, its units and their lag. No member needs to live.
func (c *Client) DescribeGroup(ctx context.Context, name string) (api.Group, error) {
	return c.subs.DescribeGroup(ctx, name)
}

// PauseGroupOptions are the options of PauseGroup and ResumeGroup.
type PauseGroupOptions struct {
	Partitions []int // by number, as the units of the group; empty: all
}

// PauseGroup stops the intake of partitions. Running handlers finish, and the partitions keep their owners. ErrConflict for
// the group of a subscription: PauseSubscription is for that.
func (c *Client) PauseGroup(ctx context.Context, name string, opts *PauseGroupOptions) error {
	if err := c.subs.GuardGroup(ctx, name); err != nil {
		return err
	}
	return c.groups.Pause(ctx, name, orZero(opts).Partitions...)
}

// ResumeGroup ends a pause of partitions, or every pause.
func (c *Client) ResumeGroup(ctx context.Context, name string, opts *PauseGroupOptions) error {
	return c.groups.Resume(ctx, name, orZero(opts).Partitions...)
}

// SeekGroupOptions are the options of SeekGroup.
type SeekGroupOptions struct {
	Partitions []int // numbered as the units of the group, or within Storage; empty: all
	Storage    *int  // index of the storage topic to move in; nil: all. With several, an offset needs it
	DryRun     bool  // find the positions, or why there are none, and change nothing
}

// SeekGroup sends a group, live or not, to a place in its topic. Live members go on from there; what they were processing
// can't be committed any more.
//
// Where a partition goes back, the partitions of later storage topics that hold later records of its keys go back to their
// beginning, unless they are sought themselves: the order of each key holds. Retention keeps the records from the new
// positions on, also while no member runs.
func (c *Client) SeekGroup(ctx context.Context, name string, to consumer.SeekTarget, opts *SeekGroupOptions) (*api.Seek, error) {
	if err := c.subs.GuardGroup(ctx, name); err != nil {
		return nil, err
	}
	o := consumer.SeekOptions(orZero(opts))
	seek := &api.Seek{Group: name, To: to.String(), Positions: []api.SeekPosition{}}
	before, _ := c.DescribeGroup(ctx, name) // a seek is the remedy for damage, so it goes on without
	after, err := c.groups.Seek(ctx, name, to, &o)
	if err != nil {
		return nil, err
	}
	seek.Done = !o.DryRun
	for _, p := range after {
		seek.Positions = append(seek.Positions, api.SeekPosition{
			Storage: p.Storage, Partition: p.Partition, From: checkpointOf(&before, p.Storage, p.Partition), Checkpoint: p.Checkpoint,
			First: p.First, Next: p.Next, Lag: p.Lag,
		})
	}
	return seek, nil
}

// checkpointOf is where a group stands in a partition; -1: it was never there.
func checkpointOf(g *api.Group, storage, partition int) int64 {
	for _, u := range g.Units {
		for _, p := range u.Positions {
			if p.Storage == storage && p.Partition == partition {
				return p.Checkpoint
			}
		}
	}
	return -1
}

// DeleteGroupOptions are the options of DeleteGroup.
type DeleteGroupOptions struct {
	// Force removes also a group with live members, which end with ErrNotFound, and one whose documents can't be read.
	Force bool
}

// DeleteGroup removes a group and its progress. ErrConflict while it has live members.
func (c *Client) DeleteGroup(ctx context.Context, name string, opts *DeleteGroupOptions) error {
	if err := c.subs.GuardGroup(ctx, name); err != nil {
		return err
	}
	if orZero(opts).Force {
		return c.groups.Destroy(ctx, name)
	}
	return c.groups.Delete(ctx, name, false)
}
