package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/consumer"
)

// GroupInfo describes a consumer group.
type GroupInfo = consumer.GroupInfo

// MemberInfo describes a live member.
type MemberInfo = consumer.MemberInfo

// AssignmentInfo says who computed the current assignment, and why.
type AssignmentInfo = consumer.AssignmentInfo

// UnitInfo describes a unit of a group: who owns it at which epoch, and how far it got. Units are the
// partitions of all storage topics of the topic, numbered through; those of retired ones are not shown.
type UnitInfo = consumer.UnitInfo

// PositionInfo is how far a unit got in one partition.
type PositionInfo = consumer.PositionInfo

// Groups lists the consumer groups, sorted by name, with their members, without units and lag: it reads
// no checkpoints. One that can't be read says so in Damaged, and has only a name.
func (c *Client) Groups(ctx context.Context) ([]GroupInfo, error) { return c.groups.List(ctx) }

// DescribeGroup describes a group with its members, its units and their lag; it needs no member
// to be alive.
func (c *Client) DescribeGroup(ctx context.Context, name string) (GroupInfo, error) {
	return c.subs.DescribeGroup(ctx, name)
}

// PauseGroup stops intake of the given partitions, or of all with none given. Running handlers
// finish, the partitions keep their owners. ErrConflict for the group of a subscription, which Pause is for.
func (c *Client) PauseGroup(ctx context.Context, name string, partitions ...int) error {
	if err := c.subs.GuardGroup(ctx, name); err != nil {
		return err
	}
	return c.groups.Pause(ctx, name, partitions...)
}

// ResumeGroup ends a pause of the given partitions, or every pause with none given.
func (c *Client) ResumeGroup(ctx context.Context, name string, partitions ...int) error {
	return c.groups.Resume(ctx, name, partitions...)
}

// DeleteGroupOptions are the options of DeleteGroup.
type DeleteGroupOptions struct {
	// Force removes also a group that has members, which end with ErrNotFound, and one whose documents
	// can't be read.
	Force bool
}

// DeleteGroup removes a group and its progress. ErrConflict while it has live members.
func (c *Client) DeleteGroup(ctx context.Context, group string, opts *DeleteGroupOptions) error {
	if err := c.subs.GuardGroup(ctx, group); err != nil {
		return err
	}
	if orDefault(opts).Force {
		return c.groups.Destroy(ctx, group)
	}
	return c.groups.Delete(ctx, group, false)
}
