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

// DescribeGroup describes a group with its members, its units and their lag; it needs no member
// to be alive.
func (c *Client) DescribeGroup(ctx context.Context, name string) (GroupInfo, error) {
	layout, err := c.layoutOf(ctx, name)
	if err != nil {
		return GroupInfo{}, err
	}
	return layout.Describe(ctx, c.reg, name, c.topics.Current)
}
