package driver

import "context"

// MirrorPosition is how far a group got in one partition of a storage topic.
type MirrorPosition struct {
	Topic     string
	Partition int
	Next      int64 // the next offset to process
}

// CheckpointMirror is what a Log may also be whose server has consumer groups of its own, with
// tools that show their lag. The copy is for those tools only: nothing ever reads it back.
type CheckpointMirror interface {
	// MirrorCheckpoints copies positions of a group; those of other partitions stay as they are.
	// fault.Conflict when the server's own group of that name has members of its own.
	MirrorCheckpoints(ctx context.Context, group string, at []MirrorPosition) error
}
