package commitlog

import (
	"context"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// MirrorPosition is how far a group got in one partition of a storage topic.
type MirrorPosition = driver.MirrorPosition

// MirrorsCheckpoints says whether the log's server shows the lag of consumer groups, and so wants
// a copy of their checkpoints.
func (l *Log) MirrorsCheckpoints() bool {
	_, ok := l.d.(driver.CheckpointMirror)
	return ok
}

// MirrorCheckpoints copies positions of a group to the log's server, for its tools; nothing reads
// them back. It is nil, and does nothing, where the server has no groups.
func (l *Log) MirrorCheckpoints(ctx context.Context, group string, at []MirrorPosition) error {
	m, ok := l.d.(driver.CheckpointMirror)
	if !ok {
		return nil
	}
	return m.MirrorCheckpoints(ctx, group, at)
}
