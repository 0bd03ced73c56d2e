// Package pgregistry is a registry in a schema of a PostgreSQL database, version 12 or newer.
//
// A transaction is one call of a server-side function at READ COMMITTED. It locks the rows of its keys in
// one order, also those of absent keys, checks, writes and commits, and never waits for the client.
// Checkpoints go by hundreds through one statement. LISTEN and NOTIFY signal all other changes. A process
// holds an advisory lock while it lives, for which a peer waits (link.go, deathwatcher.go); below that,
// sessions have a TTL by the server's clock (sessionkeeper.go). Behind a proxy that pools transactions
// neither locks nor LISTEN work: the registry then relies on the TTL, and looks for changes once a second
// (proxy.go).
package pgregistry

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// Config says where the store is.
type Config struct {
	// URL is a connection URL of libpq; see OpenURL for its parameters.
	URL string
	// PasswordFile names a file with the password, in place of one in the URL. Each connection reads it.
	// Its mode must keep other users out.
	PasswordFile string
	// Schema holds the registry. "": ringfence. Open makes a missing one, which takes the right to.
	Schema string
	// MaxConns bounds the connections for calls. 0: 4. Two more are for sessions. A process with a
	// session or a watch has another two, to listen and to wait for a peer.
	MaxConns int

	driver.Options
}

// Open connects to the store, and makes it if it is missing. It fails with ErrInvalid for a bad
// configuration or a newer format, with ErrCorrupt for damaged tables, and with ErrUnavailable if the
// database can't be reached or used.
func Open(ctx context.Context, cfg Config) (*registry.Registry, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d, err := kv.Namespace(s, cfg.Namespace)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return registry.New(d), nil
}

// reserved connections keep renewals going while calls wait, such as for a locked row.
const reserved = 2

// store is the driver.
type store struct {
	log          *slog.Logger
	conn         *pgx.ConnConfig // of all connections
	passwordFile string          // "": conn has the password, if there is one
	q            queries
	schema       string
	pooled       bool  // sessions of the database are not ours: a proxy pools transactions
	holder       int64 // the advisory lock of this process
	ids          *idSource
	gate         *hook.Gate
	pool         *pgxpool.Pool
	slots        chan struct{} // one a call that may use the pool
	watches      kv.Watchers
	keeper       *sessionKeeper
	link         *link

	mu       sync.Mutex
	closed   bool
	attached bool
	stop     context.CancelFunc // ends the goroutines of attach
	wg       sync.WaitGroup
	once     sync.Once
	err      error
}

func open(ctx context.Context, cfg Config) (_ *store, err error) {
	cc, err := connConfig(&cfg)
	if err != nil {
		return nil, err
	}
	s := &store{log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), conn: cc, passwordFile: cfg.PasswordFile, schema: cfg.Schema, q: newQueries(cfg.Schema), ids: newIDSource(), gate: hook.GateOf(ctx)}
	cc.DialFunc = dialer().DialContext
	if s.pooled, err = s.detectPooling(ctx); err != nil {
		return nil, err
	}
	if !s.pooled {
		s.holder = newHolder()
		// Whatever the database's defaults are, the server has to treat our connections as this package needs it.
		cc.RuntimeParams["application_name"] = appName(cc.RuntimeParams["application_name"], s.holder)
		cc.AfterConnect = set(sessionSettings())
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.openPool(ctx, cfg.MaxConns); err != nil {
		return nil, err
	}
	s.keeper = newSessionKeeper(s)
	s.link = newLink(s)
	return s, nil
}

func (s *store) openPool(ctx context.Context, calls int) error {
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return fmt.Errorf("postgres registry: %w: %w", driver.ErrInvalid, err)
	}
	pc.ConnConfig = s.conn
	pc.BeforeConnect = s.setPassword
	pc.MaxConns = int32(calls + reserved) //nolint:gosec // connConfig has bounded it
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.ShouldPing = stale
	pc.PingTimeout = 2 * time.Second
	s.pool, err = pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return unavailable("postgres registry", err)
	}
	s.slots = make(chan struct{}, calls)
	return nil
}

// stale reports, without asking the server, whether an idle connection was closed, as by a restart of
// the server. A write on it would have an unknown outcome.
func stale(_ context.Context, p pgxpool.ShouldPingParams) bool {
	return p.IdleDuration > time.Second && p.Conn.PgConn().CheckConn() != nil //nolint:staticcheck // Ping would be a statement for each renewal
}

func newHolder() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                                           // it never fails
	return int64(binary.LittleEndian.Uint64(b[:])&math.MaxInt64) | 1 //nolint:gosec // 63 bits
}

// do calls f with a connection for calls. An error before f is ErrUnavailable or the context's.
func (s *store) do(ctx context.Context, f func(*pgx.Conn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return s.refused("waiting for a free connection", ctx.Err())
	}
	return s.urgent(ctx, f)
}

// urgent is do for sessions, which have connections of their own.
func (s *store) urgent(ctx context.Context, f func(*pgx.Conn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.refused("connecting", err)
	}
	defer c.Release()
	return f(c.Conn())
}

// onLive is use for one statement. It takes another connection while again allows it: an idle connection that
// was closed is no reason to fail.
func (s *store) onLive(ctx context.Context, use func(context.Context, func(*pgx.Conn) error) error, again func(error) bool, f func(*pgx.Conn) error) (err error) {
	for range cap(s.slots) + reserved + 1 {
		sent := false
		err = use(ctx, func(c *pgx.Conn) error {
			sent = true
			return f(c)
		})
		if err == nil || !sent || !again(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *store) enter(ctx context.Context) error {
	if s.isClosed() {
		return fmt.Errorf("postgres registry: %w", driver.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("postgres registry: %w", err)
	}
	return nil
}

func (s *store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// List implements driver.Registry. A reading can be repeated until there is an answer, but for a FATAL one, which
// ends the connection.
func (s *store) List(ctx context.Context, prefix string) (snap driver.Snapshot, err error) {
	unanswered := func(err error) bool { return code(err) == "" || !untouched(err) }
	err = s.onLive(ctx, s.do, unanswered, func(c *pgx.Conn) (err error) {
		snap, err = s.list(ctx, c, prefix)
		return err
	})
	if err != nil {
		return driver.Snapshot{}, s.refused("list", err)
	}
	return snap, nil
}

func (s *store) list(ctx context.Context, c *pgx.Conn, prefix string) (snap driver.Snapshot, err error) {
	var rows pgx.Rows
	if end := kv.After(prefix); end == nil {
		rows, err = c.Query(ctx, s.q.listFrom, []byte(prefix))
	} else {
		rows, err = c.Query(ctx, s.q.list, []byte(prefix), end)
	}
	if err != nil {
		return snap, err
	}
	return scanEntries(rows)
}

func scanEntries(rows pgx.Rows) (snap driver.Snapshot, err error) {
	defer rows.Close()
	for rows.Next() {
		var key, value []byte
		var version, session id
		if err := rows.Scan(&snap.Revision, &snap.Time, &key, &version, &session, &value); err != nil {
			return snap, err
		}
		if key == nil { // there is none, only the revision
			continue
		}
		if key, err = unhex(key); err == nil {
			value, err = unhex(value)
		}
		if err != nil {
			return snap, fmt.Errorf("an entry that is no hexadecimal text: %w", err)
		}
		snap.Entries = append(snap.Entries, driver.Entry{Key: string(key), Value: value, Version: driver.Version(version.text()), Session: session.text()})
	}
	return snap, rows.Err()
}

// unhex decodes in place. Keys and values come as hexadecimal texts, because the server's own form of
// bytes is a setting (bytea_output) of the role, the database or a proxy's connection.
func unhex(b []byte) ([]byte, error) {
	n, err := hex.Decode(b, b)
	return b[:n:n], err
}

// Watch implements driver.Registry.
func (s *store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if err := s.attach(ctx); err != nil {
		return nil, err
	}
	ch, ok := s.watches.Add(ctx, prefix)
	if !ok {
		return nil, fmt.Errorf("postgres registry: %w", driver.ErrClosed)
	}
	return ch, nil
}

// attach starts the goroutines for sessions and notifications at its first call, and waits for the link.
func (s *store) attach(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if !s.attached && !s.closed {
		s.attached = true
		run, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.wg.Go(func() { s.link.run(run) }) // these are joined by Close
		s.wg.Go(func() { s.keeper.run(run) })
		if v := (&deathWatcher{s: s}); !s.pooled {
			s.wg.Go(func() { v.run(run) })
		}
	}
	s.mu.Unlock()
	return s.link.await(ctx)
}

// Close implements driver.Registry.
func (s *store) Close() error {
	s.once.Do(func() {
		s.err = s.keeper.endAll()
		s.shutDown()
	})
	return s.err
}

func (s *store) shutDown() {
	s.mu.Lock()
	s.closed = true
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.watches.Close()
	s.wg.Wait()
	s.pool.Close()
}
