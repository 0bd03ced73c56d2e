package ringfence

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/consumer"
)

// SeekTarget is where a group is sent: the zero value is the oldest record that is kept.
type SeekTarget = consumer.SeekTarget

// The ways to make a SeekTarget.
var (
	SeekEarliest = consumer.SeekEarliest
	SeekLatest   = consumer.SeekLatest
)

// SeekOffset is an offset, the same in each partition that is sought.
func SeekOffset(offset int64) SeekTarget { return consumer.SeekOffset(offset) }

// SeekTime is the first record at or after a time.
func SeekTime(at time.Time) SeekTarget { return consumer.SeekTime(at) }

// ParseSeek reads "earliest", "latest", an offset, an RFC 3339 time, or "-15m": so long ago.
func ParseSeek(s string) (SeekTarget, error) { return consumer.ParseSeek(s) }

// SeekOptions are the options of SeekGroup.
type SeekOptions = consumer.SeekOptions

// SeekGroup sends a group, live or not, to a place in its topic and returns the new positions.
// Live members go on from there; what they were processing can't be committed any more.
//
// Where a partition goes back, the partitions of later storage topics that hold later records of
// its keys go back to their beginning, unless they are sought themselves: they wait for it, and the
// order of each key holds.
//
// Retention keeps the records from the new positions on, as it keeps what the group has not
// processed, also when no member runs.
func (c *Client) SeekGroup(ctx context.Context, group string, to SeekTarget, opts *SeekOptions) ([]PositionInfo, error) {
	if err := c.subs.GuardGroup(ctx, group); err != nil {
		return nil, err
	}
	o := orDefault(opts)
	return c.groups.Seek(ctx, group, to, &o)
}
