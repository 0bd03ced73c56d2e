package commitlog

import (
	"context"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// PublishedOffset is how far a group got in one partition of a storage topic.
type PublishedOffset = driver.PublishedOffset

// PublishesOffsets says whether the log's server shows the lag of consumer groups, and so wants
// a copy of their checkpoints.
func (l *Log) PublishesOffsets() bool {
	_, ok := l.d.(driver.OffsetPublisher)
	return ok
}

// PublishOffsets copies positions of a group to the log's server, for its tools; nothing reads
// them back. It is nil, and does nothing, where the server has no groups.
func (l *Log) PublishOffsets(ctx context.Context, group string, at []PublishedOffset) error {
	m, ok := l.d.(driver.OffsetPublisher)
	if !ok {
		return nil
	}
	return m.PublishOffsets(ctx, group, at)
}
