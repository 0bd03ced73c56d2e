package redisregistry

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

//go:embed lua/apply.lua
var applyScript string

//go:embed lua/list.lua
var listScript string

//go:embed lua/open.lua
var openScript string

//go:embed lua/sweep.lua
var sweepScript string

// format is the version of the layout in Redis.
const format = "1"

// store is the driver.
type store struct {
	names   names
	log     *slog.Logger
	timeout time.Duration
	confirm time.Duration
	conns   conns
	client  rueidis.Client
	watches kv.Watchers
	process string // of this registry: unique for ever

	apply, list, open, sweep *rueidis.Lua

	applied atomic.Int64 // the last call of Apply, Unix ns: a sign of load
	gate    *hook.Gate
	young   time.Time // until then clients may still reconnect after a start of the server

	mu      sync.Mutex
	link    *link       // nil until the first watch or session
	seen    *lease.Link // the link, as other processes see it
	own     lease.Own
	opened  int // sessions so far
	closed  bool
	closing chan struct{}
}

func newStore(n names, cfg Config) *store {
	return &store{
		names: n, log: cfg.Logger, timeout: cfg.Timeout, confirm: cmp.Or(cfg.confirm, confirm), conns: conns{timeout: cfg.Timeout, strict: cfg.StrictTLS && cfg.hasSecrets()},
		process: newID(),
		apply:   rueidis.NewLuaScript(applyScript), list: rueidis.NewLuaScriptReadOnly(listScript),
		open: rueidis.NewLuaScript(openScript), sweep: rueidis.NewLuaScript(sweepScript),
		seen: lease.NewLink(), closing: make(chan struct{}),
	}
}

// enter refuses calls on a closed store, or with a context that has ended.
func (s *store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closing:
		return fmt.Errorf("redis registry: %w", driver.ErrClosed)
	default:
		return nil
	}
}

// patience bounds a call. The connection's own time-out comes first, except for large answers.
func (s *store) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 4*s.timeout)
}

// List implements driver.Registry.
func (s *store) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return driver.Snapshot{}, err
	}
	snap, err := s.read(ctx, prefix)
	if err != nil && errors.Is(err, fault.Unavailable) && ctx.Err() == nil {
		snap, err = s.read(ctx, prefix) // the connection may have been a stale one
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("redis registry: list of %q: %w", prefix, ctx.Err())
	}
	return snap, err
}

func (s *store) read(ctx context.Context, prefix string) (driver.Snapshot, error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	from, to := span(prefix)
	reply, err := s.list.Exec(ctx, s.client, s.names.keys, []string{s.names.session, from, to}).ToArray()
	if err != nil {
		return driver.Snapshot{}, classify("list", err, fault.Unavailable)
	}
	snap, err := decodeList(reply)
	if err != nil {
		return driver.Snapshot{}, fmt.Errorf("redis registry: list of %q: %w: %w", prefix, fault.Corrupt, err)
	}
	return snap, nil
}

// Apply implements driver.Registry.
func (s *store) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.applied.Store(time.Now().UnixNano())
	nonce := newID()
	results := make([]driver.Result, 0, len(txns))
	for rest := txns; len(rest) > 0; {
		n := chunk(rest)
		part, err := s.send(ctx, rest[:n], nonce)
		if err != nil && len(results) == 0 && !errors.Is(err, fault.Unknown) {
			return nil, err // none was applied
		}
		if err != nil { // the rest must not go before these, so it is not sent
			return append(results, slices.Repeat([]driver.Result{{Err: unknown(err)}}, len(rest))...), nil
		}
		results = append(results, part...)
		rest = rest[n:]
	}
	return results, nil
}

// unknown is the error of transactions behind one that failed with err.
func unknown(err error) error {
	if errors.Is(err, fault.Unknown) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.Unknown, err)
}

// send applies transactions in one call of the script: all of them, or none when it fails.
func (s *store) send(ctx context.Context, txns []driver.Txn, nonce string) ([]driver.Result, error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	args := encode(txns, nonce, s.names.session, s.names.changes)
	reply, err := s.apply.Exec(ctx, s.client, s.names.keys, args).AsIntSlice()
	if err != nil {
		return nil, classify("transaction", err, fault.Unknown)
	}
	hook.Sent(ctx, func(ctx context.Context) error { return s.apply.Exec(ctx, s.client, s.names.keys, args).Error() })
	return decodeResults(txns, reply, nonce)
}

// Watch implements driver.Registry.
func (s *store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ch, ok := s.watches.Add(ctx, prefix)
	if !ok {
		cancel()
		return nil, fmt.Errorf("redis registry: %w", driver.ErrClosed)
	}
	if err := s.connected(ctx); err != nil {
		cancel()
		return nil, err
	}
	context.AfterFunc(ctx, cancel) // the watch holds on to its context until the caller's ends
	return ch, nil
}

// connected waits for the first link. From then on watches are signalled whenever it is restored.
func (s *store) connected(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("redis registry: %w", driver.ErrClosed)
	}
	if s.link == nil {
		s.link = startLink(s)
	}
	l := s.link
	s.mu.Unlock()
	late := time.NewTimer(2 * s.timeout)
	defer late.Stop()
	select {
	case <-l.first:
		return nil
	case <-late.C:
		return fmt.Errorf("redis registry: no connection for subscriptions within %s: %w", 2*s.timeout, driver.ErrUnavailable)
	case <-s.closing:
		return fmt.Errorf("redis registry: %w", driver.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements driver.Registry.
func (s *store) Close() error {
	return s.shut(true)
}

// shut ends everything; without farewell it sends the store nothing, as kill -9 would.
func (s *store) shut(farewell bool) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.closing
		return nil
	}
	s.closed = true
	l := s.link
	s.mu.Unlock()
	var err error
	if farewell {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		err = s.own.End(ctx)
	} else {
		s.conns.close()
		s.own.Abandon()
	}
	close(s.closing)
	if l != nil {
		l.close()
	}
	s.watches.Close()
	s.conns.close()
	s.client.Close()
	return err
}
