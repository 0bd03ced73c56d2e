package ringfence

import "github.com/ringfence/ringfence/internal/fault"

// The kinds of errors. Test for them with errors.Is.
var (
	ErrInvalid     = fault.Invalid     // input that can never succeed
	ErrNotFound    = fault.NotFound    // no such topic, group or partition
	ErrExists      = fault.Exists      // it exists with other properties
	ErrConflict    = fault.Conflict    // somebody else changed it first
	ErrFenced      = fault.Fenced      // a stale owner, epoch or incarnation
	ErrForgotten   = fault.Forgotten   // an idempotent producer that the log does not remember any more
	ErrSealed      = fault.Sealed      // the storage topic takes no more records
	ErrOutOfRange  = fault.OutOfRange  // an offset that was trimmed or is past the end
	ErrCorrupt     = fault.Corrupt     // damaged data, with its place
	ErrNotAppended = fault.NotDone     // certainly not stored; may be produced again
	ErrUnknown     = fault.Unknown     // stored or not, nobody can say
	ErrUnavailable = fault.Unavailable // the store does not answer now
	ErrClosed      = fault.Closed      // the client was closed
)
