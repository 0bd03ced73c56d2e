package ringfence

import (
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/shard"
)

// The kinds of errors. Test for them with errors.Is.
var (
	ErrInvalid     = fault.Invalid     // input that can never succeed
	ErrNotFound    = fault.NotFound    // no such topic, group or partition
	ErrExists      = fault.Exists      // it exists with other properties
	ErrConflict    = fault.Conflict    // another change came first
	ErrFenced      = fault.Fenced      // a stale owner, epoch or incarnation
	ErrForgotten   = fault.Forgotten   // an idempotent producer that the log does not remember any more
	ErrSealed      = fault.Sealed      // the storage topic takes no more records
	ErrOutOfRange  = fault.OutOfRange  // an offset that was trimmed or is past the end
	ErrCorrupt     = fault.Corrupt     // damaged data, with its place
	ErrNotAppended = fault.NotDone     // certainly not stored; may be produced again
	ErrUnknown     = fault.Unknown     // stored or not: it is not known
	ErrUnavailable = fault.Unavailable // the store does not answer now
	ErrClosed      = fault.Closed      // the client was closed
)

// Permanent marks an error of a handler: the record can never succeed, and becomes a dead letter at once. Consume
// treats it as any other error.
func Permanent(err error) error { return shard.Permanent(err) }

// RetryAfter marks an error of a handler with the pause before the next attempt: at most Retry.AfterMax of its
// subscription; for Consume a day, or the longest pause where that is more.
func RetryAfter(err error, d time.Duration) error { return shard.RetryAfter(err, d) }

// Outage marks an error of a handler: what it delivers to does not work, whatever the record. There is no connection,
// no answer in time, or the answer "I am overloaded". When the first attempts at the records of several keys end so one
// after another, the subscription tries single records until one gets another answer: it delivers nothing more, counts
// no attempt and parks nothing. So an outage costs no record its attempts. Consume treats it as any other error.
func Outage(err error) error { return shard.Outage(err) }
