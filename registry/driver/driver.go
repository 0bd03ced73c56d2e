// Package driver is the contract between package registry and its stores.
//
// A registry is a small, strongly consistent, versioned key-value space with sessions, like etcd. Programs
// use package registry; a store implements this package and passes the suite of registry/registrytest.
package driver

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Options apply to every store.
type Options struct {
	Namespace string       // isolates users of one store; "" is one too
	Logger    *slog.Logger // nil: discard
	// AllowShared skips the check of owner and mode of files.
	AllowShared bool
	// StrictTLS refuses a login to another host without TLS; otherwise there is a warning.
	StrictTLS bool
}

// Version is an opaque version of an entry, to be compared for equality only. Each put gives a key a version
// that it never had before, not even after a failover to a lagging replica or a deletion of the key. The
// empty version means absent.
type Version string

// Entry is a stored key.
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
	// Quiet transactions, such as checkpoints, need not signal watches.
	Quiet bool
}

// Result is the outcome of one Txn.
type Result struct {
	// Err is nil if it was applied, fault.Conflict if a check failed, fault.Fenced if the session of a
	// put has ended, and fault.Unknown if the answer to the request was lost.
	Err error
	// Versions are those of the puts, in their order, if it was applied.
	Versions []Version
	// Failed is the index of the first check that failed, with fault.Conflict.
	Failed int
}

// Snapshot is a consistent reading.
type Snapshot struct {
	Entries  []Entry // sorted by key
	Revision int64   // grows with every change of the store; informative
	// Time is the time of day of the reading, in Unix milliseconds: of the store's server, so that all
	// readers share a clock, or of this host if the store has none.
	Time int64
}

// Registry is a store. All methods may be called concurrently. An unreachable store is fault.Unavailable:
// retry, and conclude nothing about keys.
type Registry interface {
	// List reads all entries whose key starts with prefix, at one point in time. It sees every Apply, of
	// any process, that returned before List was called.
	List(ctx context.Context, prefix string) (Snapshot, error)

	// Apply applies independent transactions, in order, each all or nothing, and returns a result for
	// each. Results are durable. An error is that of the whole call: fault.Unavailable if certainly none
	// was applied.
	Apply(ctx context.Context, txns []Txn) ([]Result, error)

	// Watch sends on the returned channel (capacity 1, coalesced) after each change below prefix since
	// Watch returned, including the end of sessions, and after every reconnect: list again. Spurious
	// signals are allowed. The channel is closed when ctx ends or the registry is closed. A store does
	// not poll in steady state.
	Watch(ctx context.Context, prefix string) (<-chan struct{}, error)

	// OpenSession starts a session, which renews itself in the background until Close. It ends as soon
	// as the store notices the death of its process, and at the latest when it is not renewed for ttl.
	OpenSession(ctx context.Context, ttl time.Duration) (Session, error)

	// Close ends the sessions and watches opened through it, and releases everything.
	Close() error
}

// MaxSessionTTL is the longest TTL of a session. A stored session that would live longer is from before the
// store's clock was set back, and is ended.
const MaxSessionTTL = 24 * time.Hour

// Session is liveness.
type Session interface {
	// ID is unique for ever; puts name it.
	ID() string
	// Done is closed once this process knows that the session is over: closed, ended in the store, or
	// not renewed until its local monotonic deadline.
	Done() <-chan struct{}
	// Deadline is the time until which the session has certainly not expired: when the last successful
	// renewal was SENT, by the monotonic clock of this process, plus ttl. A store may end it earlier if it
	// takes the loss of the process's connections for a death.
	Deadline() time.Time
	// Close ends the session and removes its entries at once.
	Close(ctx context.Context) error
}

// Doubter is a Session of a store that takes a lost connection for the death of a process. Such a store may
// end the session before its deadline.
type Doubter interface {
	// Doubtful is true from the loss of the connection, once noticed, until a renewal over a new one.
	Doubtful() bool
}

// The kinds of errors of a driver. ErrUnavailable means pause, and never that a key is absent.
var (
	ErrConflict    = fault.Conflict
	ErrFenced      = fault.Fenced
	ErrUnknown     = fault.Unknown
	ErrUnavailable = fault.Unavailable
	ErrClosed      = fault.Closed
	ErrInvalid     = fault.Invalid
)

// Patience is a Registry that notices a death by the TTL of a session alone.
type Patience interface {
	// SessionTTL is the shortest TTL that the store keeps well, and the default.
	SessionTTL() time.Duration
}

// Transactional is a Registry whose entries can be written in a transaction of the user, so that a checkpoint
// is committed together with the effects of its records.
type Transactional interface {
	// InTx gives access to the entries inside tx, a transaction of the store's client (pgx.Tx or *sql.Tx)
	// on the database that holds the registry. ErrInvalid for any other type.
	InTx(tx any) (TxEntries, error)
}

// TxEntries reads and writes entries inside a transaction of the user, who commits it or rolls it back. Its
// methods must not be called concurrently. After an error the transaction may be unusable: roll it back.
type TxEntries interface {
	// Lock reads keys, absent ones too, and locks them until the end of the transaction. The entries come
	// in the order of keys; an absent one has the version "". Lock all keys in one call: two transactions
	// that lock the same keys in several calls may deadlock, and the store ends one with ErrConflict.
	Lock(ctx context.Context, keys ...string) ([]Entry, error)
	// Put writes a locked key, bound to no session. It signals no watches.
	Put(ctx context.Context, key string, value []byte) (Version, error)
}
