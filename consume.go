package ringfence

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

var oneRecord = &commitlog.ReadOptions{MaxBytes: 1}

// Handler processes one message. nil: it is done. An error: it is handed over again, in order,
// after a backoff; only later messages of its key wait for it. ctx is cancelled the moment the
// ownership of the partition is lost: return then, whatever is written afterwards is refused.
// m and its bytes may be kept.
type Handler func(ctx context.Context, m *Message) error

// From says where a group starts in a partition that it has no checkpoint of.
type From string

// Where to start.
const (
	Earliest From = "earliest" // the oldest record that is kept
	Latest   From = "latest"   // records produced from now on
)

// ConsumeOptions are the options of Consume; the zero value of each field is its default.
type ConsumeOptions struct {
	Member string // ID in the group; default host-pid-random. The newest start of an ID fences the others.
	From   From   // default Earliest

	Concurrency      int           // handlers at once in one partition, each on another key; default 16
	MaxInFlight      int           // records handed out or waiting in one partition; default 8192
	MaxInFlightBytes int           // their bytes; default 16 MiB
	CommitInterval   time.Duration // between two checkpoints; default 100 ms
	DrainTimeout     time.Duration // for running handlers when a partition moves or Consume ends; default 10 s
	SessionTTL       time.Duration // a member that is not heard of for so long is dead; default 5 s
	HandlerTimeout   time.Duration // a handler that runs longer gives its partition up; default 0: never
	RetryInitial     time.Duration // backoff after the first failure of a record; default 100 ms
	RetryMax         time.Duration // and at most; default 30 s

	Assignor      string        // "sticky" (default), "fair" or "roundrobin"; must be the same for all members
	Weight        int           // share of the partitions relative to the others; default 1
	Zone          string        // where the member runs
	Static        bool          // keep its partitions through a restart that takes at most RestartWindow
	RestartWindow time.Duration // default 30 s

	// OnAssigned and OnRevoked are told of partitions that this member gets and loses; they must
	// not block.
	OnAssigned func(unit int, epoch int64)
	OnRevoked  func(unit int, epoch int64, reason string)
}

// Consume shares the partitions of a topic with the other members of a group and calls h for
// each record, until ctx ends: then it drains and returns nil. It blocks and joins all that it
// started.
//
// Errors: ErrNotFound for an unknown topic; ErrExists for a group that consumes another topic;
// ErrFenced when the same member ID was started elsewhere; ErrCorrupt or ErrOutOfRange when
// records can't be read: nothing is skipped by itself.
func (c *Client) Consume(ctx context.Context, topicName, group string, h Handler, opts *ConsumeOptions) error {
	return ErrUnavailable
}
