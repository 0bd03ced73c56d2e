package driver

import "context"

// PublishedOffset is how far a group got in one partition of a storage topic.
type PublishedOffset struct {
	Topic     string
	Partition int
	Next      int64 // the next offset to process
}

// OffsetPublisher is what a Log may also be whose server has consumer groups of its own, with
// tools that show their lag. The copy is for those tools only: nothing ever reads it back.
type OffsetPublisher interface {
	// PublishOffsets copies the positions of a group; those of other partitions stay as they are.
	// fault.Conflict when the server's own group of that name has members of its own.
	PublishOffsets(ctx context.Context, group string, at []PublishedOffset) error
}
