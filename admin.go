package ringfence

import "context"

// Consume shares the partitions of a topic with the other members of a group and calls h for
// each record, until ctx ends: then it drains and returns nil. It blocks and joins all that it
// started.
//
// Errors: ErrNotFound for an unknown topic; ErrConflict for a group that consumes another topic;
// ErrFenced when the same member ID was started elsewhere; ErrCorrupt or ErrOutOfRange when
// records can't be read: nothing is skipped by itself.
func (c *Client) Consume(ctx context.Context, topicName, group string, h Handler, opts *ConsumeOptions) error {
	return ErrUnavailable
}

// Groups lists the consumer groups, sorted by name, with their members and without lag.
func (c *Client) Groups(ctx context.Context) ([]GroupInfo, error) { return nil, ErrUnavailable }

// SeekOptions are the options of SeekGroup.
type SeekOptions struct {
	Partitions []int // empty: all
}

// SeekGroup sends a group, live or not, to a place in its topic. Live members go on from there;
// what they were processing can't be committed any more.
func (c *Client) SeekGroup(ctx context.Context, group string, to SeekTarget, opts *SeekOptions) ([]PositionInfo, error) {
	return nil, ErrUnavailable
}

// PauseGroup stops intake of the given partitions, or of all with none given. Running handlers finish.
func (c *Client) PauseGroup(ctx context.Context, group string, partitions ...int) error {
	return ErrUnavailable
}

// ResumeGroup ends a pause of the given partitions, or of all with none given.
func (c *Client) ResumeGroup(ctx context.Context, group string, partitions ...int) error {
	return ErrUnavailable
}

// DeleteGroup removes a group and its progress. ErrConflict while it has live members.
func (c *Client) DeleteGroup(ctx context.Context, group string) error { return ErrUnavailable }
