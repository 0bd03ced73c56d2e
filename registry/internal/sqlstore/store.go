// Package sqlstore is a registry in the tables of a SQL database. A Dialect holds the differences of
// databases, and Signals hold how processes wake each other and notice a death.
//
// A call of Apply is one transaction of the database. It locks the sessions and keys that its registry
// transactions name, all processes in the same order, decides in memory, and writes the result in as few
// statements as possible.
//
// A store has three goroutines, which Close joins. The keeper ends expired sessions and watches two
// neighbours. The ringer wakes the listeners of other processes. The listener, from the first session or
// watch on, reads what others changed.
package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// Config is an open database, and what a store needs to know about it.
type Config struct {
	Dialect *Dialect
	// DB is for transactions, Reads for single statements that only read. They may be the same.
	// Close closes them.
	DB, Reads *sql.DB
	// NoWait is DB without waiting for locks: a locked row fails at once, as Held. nil: DB. Close closes it.
	NoWait *sql.DB
	// Live is for renewals, if sessions have a file of their own, which a user's transaction does not
	// lock. nil: DB. Close closes it.
	Live *sql.DB
	// Intact fails with fault.Closed if the database is no longer the one that was opened. Every write
	// asks it first. nil: it always is.
	Intact func() error
	// Signals are closed by Close.
	Signals Signals
	// MaxBytes bounds the values in one statement, but for the last of them. 0: 3 MiB.
	MaxBytes int
	// Handle names this process, uniquely for ever. At most 40 bytes.
	Handle string
	Logger *slog.Logger // nil: discard
}

// patience bounds a call without a deadline, which a frozen or unreachable server would keep for ever.
const patience = 15 * time.Second

// Store is a driver.Registry and driver.Transactional.
type Store struct {
	cfg     Config
	d       *Dialect
	log     *slog.Logger
	nonce   string
	counter atomic.Uint64
	watches kv.Watchers
	ringing atomic.Bool // the ringer is at it
	gate    *hook.Gate

	ctx    context.Context //nolint:containedctx // its lifetime: cancelled by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	keep   chan struct{} // wakes the keeper
	ring   chan struct{} // wakes the ringer

	starting sync.Mutex // held over I/O: by the first session or watch, which others have to wait for
	started  bool
	presence atomic.Pointer[Presence] // nil before the first session
	link     *lease.Link              // the presence, and the listener: both are lost with the server

	own    lease.Own
	mu     sync.Mutex
	closed bool
	once   sync.Once
	err    error
}

// Open creates missing tables, ends the sessions of dead processes, and returns the store. An error closes
// the databases and signals too.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{
		cfg: cfg, d: cfg.Dialect, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), nonce: rand.Text()[:13],
		keep: make(chan struct{}, 1), ring: make(chan struct{}, 1), link: lease.NewLink(), gate: hook.GateOf(ctx),
	}
	s.cfg.NoWait, s.cfg.Live = cmp.Or(cfg.NoWait, cfg.DB), cmp.Or(cfg.Live, cfg.DB)
	if s.cfg.Intact == nil {
		s.cfg.Intact = func() error { return nil }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, step := range []func(context.Context) error{s.ensureSchema, s.disown, s.sweep} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.wg.Go(s.keepSessions) // joined by Close
	s.wg.Go(s.ringer)
	return s, nil
}

// List implements driver.Registry. One statement reads all at one point in time.
func (s *Store) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return driver.Snapshot{}, err
	}
	defer done()
	from, to := []byte(prefix), kv.After(prefix)
	on, args := s.d.bind("e.k >= %s AND e.k < %s", 2), []any{from, to}
	if to == nil {
		on, args = s.d.bind("e.k >= %s", 1), []any{from}
	}
	var snap driver.Snapshot
	whole := false
	err = each(ctx, s.cfg.Reads, func(scan func(...any) error) error {
		var key, value []byte
		var version, session sql.NullString
		whole = true
		if err := scan(&snap.Revision, &snap.Time, &key, &version, &session, &value); err != nil {
			return err
		}
		if key != nil { // nil: nothing is there
			snap.Entries = append(snap.Entries, driver.Entry{Key: string(key), Value: value, Version: driver.Version(version.String), Session: session.String})
		}
		return nil
	}, "SELECT r.revision, "+s.d.Day()+", e.k, e.version, e.session_id, e.content FROM ringfence_revision r LEFT JOIN ringfence_entries e ON "+on+" WHERE r.id = 1", args...)
	if err == nil && !whole {
		err = errNoRevision // else it would look like an empty registry
	}
	if err != nil {
		return driver.Snapshot{}, s.wrap(ctx, "list", err)
	}
	slices.SortFunc(snap.Entries, func(a, b driver.Entry) int { return strings.Compare(a.Key, b.Key) })
	return snap, nil
}

// Watch implements driver.Registry.
func (s *Store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	call, done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.start(call); err != nil {
		return nil, err
	}
	ch, ok := s.watches.Add(ctx, prefix)
	if !ok {
		return nil, s.closedError()
	}
	return ch, nil
}

// start starts the listener. From its return on no change is missed.
func (s *Store) start(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.started {
		return nil
	}
	last, err := s.revision(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.closedError()
	}
	s.started = true
	s.wg.Go(func() { s.listen(last) }) // joined by Close
	return nil
}

func (s *Store) revision(ctx context.Context) (n int64, err error) {
	err = s.cfg.Reads.QueryRowContext(ctx, "SELECT revision FROM ringfence_revision WHERE id = 1").Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoRevision
	}
	if err != nil {
		return 0, s.wrap(ctx, "revision", err)
	}
	return n, nil
}

// enter begins a call: it refuses a closed store and bounds the time.
func (s *Store) enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, s.closedError()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	return ctx, cancel, nil
}

func (s *Store) closedError() error { return fmt.Errorf("%s registry: %w", s.d.Name, fault.Closed) }

// wrap gives an error its kind, for a call that certainly changed nothing.
func (s *Store) wrap(ctx context.Context, what string, err error) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return s.closedError()
	case errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s registry: %s: %w", s.d.Name, what, context.Canceled)
	case errors.Is(err, fault.Closed), errors.Is(err, fault.Corrupt):
		return fmt.Errorf("%s registry: %s: %w", s.d.Name, what, err)
	case s.d.Fate(err) == Damaged:
		return fmt.Errorf("%s registry: %s: %w: %w", s.d.Name, what, fault.Corrupt, err)
	}
	return fmt.Errorf("%s registry: %s: %w: %w", s.d.Name, what, fault.Unavailable, err)
}

// version is a new version. The nonce of this handle keeps it unique, even if the database lost its last
// transactions.
func (s *Store) version() driver.Version {
	return driver.Version(fmt.Sprintf("%s-%x", s.nonce, s.counter.Add(1)))
}

// Close implements driver.Registry.
func (s *Store) Close() error {
	s.once.Do(func() { s.end(true) })
	return s.err
}

// Abandon ends everything of this process without a word to the database, as its death would.
func (s *Store) Abandon() {
	s.once.Do(func() { s.end(false) })
}

// lastRing wakes the other processes if the ringer has not yet.
func (s *Store) lastRing() {
	select {
	case <-s.ring:
	default:
		if !s.ringing.Load() {
			return // it was all told
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience/5)
	defer cancel()
	if err := s.cfg.Signals.Ring(ctx); err != nil {
		s.log.Debug("can't wake other processes at close", "error", err)
	}
}

func (s *Store) end(tell bool) {
	s.mu.Lock()
	s.closed = true // no more calls, no new sessions
	s.mu.Unlock()
	if tell {
		ctx, cancel := context.WithTimeout(context.Background(), patience/5)
		if err := s.own.End(ctx); err != nil {
			s.log.Warn("can't end sessions at close; they end with their TTL", "error", err)
		}
		cancel()
		s.lastRing()
	} else {
		s.own.Abandon()
	}
	s.cancel()
	s.watches.Close()
	s.wg.Wait()
	s.starting.Lock()
	defer s.starting.Unlock()
	if p := s.presence.Load(); p != nil {
		s.err = (*p).Close()
	}
	s.err = errors.Join(s.err, s.cfg.Signals.Close())
	// A broken connection fails to close, but all writes are committed.
	if err := errors.Join(s.cfg.DB.Close(), s.cfg.Reads.Close(), s.cfg.NoWait.Close(), s.cfg.Live.Close()); err != nil {
		s.log.Debug("connections were broken at close", "error", err)
	}
}
