package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/topic"
)

// RetireOptions are the options of RetireStorage.
type RetireOptions struct {
	DryRun bool // only say what would be done
}

// Retirement says what became of the sealed storage topics of a topic.
type Retirement struct {
	Topic string `json:"topic"`
	Done  bool   `json:"done"` // false: a dry run
	topic.Retirement
}

// RetireStorage removes the storage topics of a topic that can't deliver a record to anybody any more:
// sealed, without a record, as retention has dropped them, and behind every group. Their places stay, so
// that no index shifts. What groups know of their partitions goes, too. The oldest goes first; the result
// says of each sealed one that stays why it does.
//
// Members do the same by themselves, every ten minutes or so. It can be repeated after a failure.
// ErrNotFound for an unknown topic, ErrConflict when it was moved to another log.
func (c *Client) RetireStorage(ctx context.Context, name string, opts *RetireOptions) (*Retirement, error) {
	dry := orDefault(opts).DryRun
	done, err := c.topics.Retire(ctx, name, dry)
	if err != nil {
		return nil, err
	}
	return &Retirement{Topic: name, Done: !dry, Retirement: *done}, nil
}
