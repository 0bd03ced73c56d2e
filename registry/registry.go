// Package registry is the portable type of the coordination seam: a small, strongly consistent,
// versioned key-value space with sessions and watches. Package group/protocol builds consumer groups on it.
package registry

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// The kinds of errors that calls of this package return.
var (
	ErrInvalid     = fault.Invalid
	ErrNotFound    = fault.NotFound
	ErrExists      = fault.Exists
	ErrConflict    = fault.Conflict
	ErrFenced      = fault.Fenced
	ErrUnknown     = fault.Unknown
	ErrUnavailable = fault.Unavailable
	ErrClosed      = fault.Closed
)

// Types shared with the drivers.
type (
	Version  = driver.Version
	Entry    = driver.Entry
	Check    = driver.Check
	Put      = driver.Put
	Txn      = driver.Txn
	Result   = driver.Result
	Snapshot = driver.Snapshot
	Session  = driver.Session
)

// Limits that hold on every store.
const (
	MaxKeyBytes   = 512
	MaxValueBytes = 1 << 20
	MinSessionTTL = 100 * time.Millisecond
	MaxSessionTTL = driver.MaxSessionTTL
)

// Registry is an open registry. Its methods may be called concurrently.
type Registry struct {
	d     driver.Registry
	clock atomic.Pointer[storeClock] // as the last reading told it; nil: none yet
}

// New wraps a driver. Backends call it; users open a backend.
func New(d driver.Registry) *Registry { return &Registry{d: d} }

// CheckKey says whether key can be a key.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("registry key %.20q has %d bytes; expected 1 to %d: %w", key, len(key), MaxKeyBytes, ErrInvalid)
	}
	if strings.ContainsRune(key, 0) {
		return fmt.Errorf("registry key %.20q contains a NUL byte: %w", key, ErrInvalid)
	}
	return nil
}

// Get reads one key; ErrNotFound when it is absent.
func (r *Registry) Get(ctx context.Context, key string) (Entry, error) {
	snap, err := r.List(ctx, key)
	if err != nil {
		return Entry{}, err
	}
	for _, e := range snap.Entries {
		if e.Key == key {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("registry key %q: %w", key, ErrNotFound)
}

// List reads all entries below prefix at one point in time.
func (r *Registry) List(ctx context.Context, prefix string) (Snapshot, error) {
	snap, err := r.d.List(ctx, prefix)
	if err == nil {
		r.clock.Store(&storeClock{millis: snap.Time, read: time.Now()})
	}
	return snap, err
}

// Apply applies independent transactions, each all or nothing. The error is that of the call;
// each result has its own.
func (r *Registry) Apply(ctx context.Context, txns []Txn) ([]Result, error) {
	for i := range txns {
		if err := checkTxn(&txns[i]); err != nil {
			return nil, err
		}
	}
	if len(txns) == 0 {
		return nil, nil
	}
	return r.d.Apply(ctx, txns)
}

// Txn applies one transaction and returns the versions of its puts. ErrConflict when a check failed.
func (r *Registry) Txn(ctx context.Context, t Txn) ([]Version, error) {
	res, err := r.Apply(ctx, []Txn{t})
	if err != nil {
		return nil, err
	}
	return res[0].Versions, res[0].Err
}

func checkTxn(t *Txn) error {
	seen := make(map[string]bool, len(t.Puts)+len(t.Deletes))
	for _, c := range t.Checks {
		if err := CheckKey(c.Key); err != nil {
			return err
		}
	}
	for i := range t.Puts {
		p := &t.Puts[i]
		if err := CheckKey(p.Key); err != nil {
			return err
		}
		if len(p.Value) > MaxValueBytes {
			return fmt.Errorf("registry key %q: a value of %d bytes; at most %d are allowed: %w", p.Key, len(p.Value), MaxValueBytes, ErrInvalid)
		}
		if seen[p.Key] {
			return fmt.Errorf("registry key %q is written twice in one transaction: %w", p.Key, ErrInvalid)
		}
		seen[p.Key] = true
	}
	for _, k := range t.Deletes {
		if err := CheckKey(k); err != nil {
			return err
		}
		if seen[k] {
			return fmt.Errorf("registry key %q is written twice in one transaction: %w", k, ErrInvalid)
		}
		seen[k] = true
	}
	return nil
}

// Watch signals after each change below prefix; the receiver lists again. See driver.Registry.
func (r *Registry) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	return r.d.Watch(ctx, prefix)
}

// OpenSession starts a session that renews itself until it is closed.
func (r *Registry) OpenSession(ctx context.Context, ttl time.Duration) (Session, error) {
	if ttl < MinSessionTTL || ttl > MaxSessionTTL {
		return nil, fmt.Errorf("session TTL %s; expected %s to %s: %w", ttl, MinSessionTTL, MaxSessionTTL, ErrInvalid)
	}
	return r.d.OpenSession(ctx, ttl)
}

// SessionTTL is the default TTL of a session: 5 s, within which a hung process is noticed, or what the store
// asks for.
func (r *Registry) SessionTTL() time.Duration {
	if r != nil {
		if d, ok := r.d.(driver.Patience); ok {
			return d.SessionTTL()
		}
	}
	return 5 * time.Second
}

// Close ends the sessions and watches opened through it.
func (r *Registry) Close() error { return r.d.Close() }

// Transactional says whether entries can be written in a transaction of the user's.
func (r *Registry) Transactional() bool {
	_, ok := r.d.(driver.Transactional)
	return ok
}

// InTx returns what writes entries in tx, a transaction of the user's on the registry's database.
// ErrInvalid: tx is no transaction of this registry's store, or the store has none.
func (r *Registry) InTx(tx any) (driver.TxEntries, error) {
	t, ok := r.d.(driver.Transactional)
	if !ok {
		return nil, fmt.Errorf("this registry can't write in a transaction of yours; PostgreSQL, MariaDB and SQLite can: %w", ErrInvalid)
	}
	return t.InTx(tx)
}

// storeClock is the store's time of day, as a reading returned it.
type storeClock struct {
	millis int64
	read   time.Time // when the reading arrived, with the monotonic clock
}

// Now is the store's time of day in Unix ms: that of the last reading plus what has passed since. It is
// never ahead of the store's clock.
func (r *Registry) Now(ctx context.Context) (int64, error) {
	c := r.clock.Load()
	if c == nil {
		if _, err := r.List(ctx, "clock"); err != nil {
			return 0, err
		}
		c = r.clock.Load()
	}
	return c.millis + time.Since(c.read).Milliseconds(), nil
}
