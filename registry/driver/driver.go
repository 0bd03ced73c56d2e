// Package driver is the contract between registry and the stores that keep who owns what.
//
// A registry is a small, strongly consistent, versioned key-value space with sessions, the shape
// of etcd's. Users want package registry; a backend implements this package and proves itself
// with registry/registrytest.
package driver

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Options are what every registry backend is opened with.
type Options struct {
	Namespace string       // isolates users of one store; "" is one too
	Logger    *slog.Logger // nil: discard
	// AllowShared takes files as they are, whoever owns them or can open them.
	AllowShared bool
	// StrictTLS refuses to log in to another host without TLS, which is only warned about otherwise.
	StrictTLS bool
}

// Version is an opaque version of an entry, compared for equality only. Each put of a key gives
// it one that it never had before, not even after a failover to a lagging replica or after the
// key was deleted. The empty version means: absent.
type Version string

// Entry is one key as the store has it.
type Entry struct {
	Key     string
	Value   []byte
	Version Version
	Session string // the session it is bound to; "": none
}

// Check demands that a key has a version ("" = is absent).
type Check struct {
	Key     string
	Version Version
}

// Put writes a key. With a Session, the entry vanishes when that session ends.
type Put struct {
	Key     string
	Value   []byte
	Session string
}

// Txn is applied as a whole when all checks hold, else not at all.
type Txn struct {
	Checks  []Check
	Puts    []Put    // each key at most once, and not in Deletes
	Deletes []string // deleting an absent key is no error
	// Quiet: watchers need not be told (checkpoints). They may be.
	Quiet bool
}

// Result is the fate of one Txn.
type Result struct {
	// Err is nil when it was applied; fault.Conflict when a check failed; fault.Fenced when the
	// session of a put has ended; fault.Unknown when nobody can say (the connection was lost
	// after the request was sent).
	Err error
	// Versions of the puts, in their order, when it was applied.
	Versions []Version
	// Failed is the index of the first check that failed, with fault.Conflict.
	Failed int
}

// Snapshot is a consistent reading.
type Snapshot struct {
	Entries  []Entry // sorted by key
	Revision int64   // grows with every change of the store; informative
	// Time is the store's time of day when it was read, in Unix milliseconds: of its server, so
	// that all who read have the same clock, or of this host where the store has no clock.
	Time int64
}

// Registry is a store. All methods may be called concurrently. A store that can't be reached is
// fault.Unavailable (retry; nothing is known, least of all that keys are absent).
type Registry interface {
	// List reads all entries whose key starts with prefix, at one point in time, and at least as
	// new as every Apply, by anybody, that returned before List was called.
	List(ctx context.Context, prefix string) (Snapshot, error)

	// Apply applies independent transactions, in order, each all or nothing, and returns a result
	// for each; one's failure does not touch the others. Results are durable. The error is for
	// the call as a whole: fault.Unavailable when certainly none was applied.
	Apply(ctx context.Context, txns []Txn) ([]Result, error)

	// Watch sends on the returned channel (capacity 1, coalesced) after each change below prefix
	// that happened after Watch returned, including the end of sessions, and after every
	// reconnect: list again. Spurious signals are allowed. The channel is closed when ctx ends or
	// the registry is closed. No polling in steady state.
	Watch(ctx context.Context, prefix string) (<-chan struct{}, error)

	// OpenSession starts a session. It renews itself in the background until Close. When its
	// process dies it ends as fast as the store can notice; when it is not renewed for ttl it
	// ends all the same.
	OpenSession(ctx context.Context, ttl time.Duration) (Session, error)

	// Close ends the sessions and watches opened through it, and releases everything.
	Close() error
}

// MaxSessionTTL is the longest TTL of a session. What would live longer in a store was put there by
// somebody else, or before a clock was set back, and is ended.
const MaxSessionTTL = 24 * time.Hour

// Session is liveness.
type Session interface {
	// ID is unique for ever; puts name it.
	ID() string
	// Done is closed when the session has ended, for whatever reason, as far as this process can
	// know: closed, expired in the store, or not renewed until its local monotonic deadline.
	Done() <-chan struct{}
	// Deadline is until when the session has certainly not run out: the moment the last successful
	// renewal was SENT (this process's monotonic clock) plus ttl. A store that takes a process whose
	// connections were lost for dead may have ended it before.
	Deadline() time.Time
	// Close ends the session and removes its entries at once.
	Close(ctx context.Context) error
}

// Doubter is what a Session may be whose store ends the sessions of a process that it does not
// hear, by the loss of a connection, which need not be a death. It may do so before the deadline.
type Doubter interface {
	// Doubtful is true from when this process noticed such a loss until a renewal over a new
	// connection succeeded.
	Doubtful() bool
}

// ErrConflict and the others are the kinds a driver returns. An error is never an answer: ErrUnavailable means
// pause, and never "absent" or "begin at the start".
var (
	ErrConflict    = fault.Conflict
	ErrFenced      = fault.Fenced
	ErrUnknown     = fault.Unknown
	ErrUnavailable = fault.Unavailable
	ErrClosed      = fault.Closed
	ErrInvalid     = fault.Invalid
)
