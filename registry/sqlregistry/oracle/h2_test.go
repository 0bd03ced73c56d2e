package oracle

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5" // H2 speaks the wire protocol of PostgreSQL
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// h2 is a database in the memory of an H2 server, in Oracle mode.
type h2 struct{ *pgx.ConnConfig }

func newH2(t testing.TB) registrytest.Store {
	t.Helper()
	cfg, err := pgx.ParseConfig(testserver.URL(t, "h2") + "?sslmode=disable&default_query_exec_mode=cache_describe")
	if err != nil {
		t.Fatal(err)
	}
	name := "mem:" + strings.ToLower(rand.Text()[:12])
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return eager{c.(*net.TCPConn)}, nil
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		return c.Exec(ctx, "SET MODE Oracle").Close()
	}
	cfg.Tracer = newGate()
	first := h2{cfg}.connect()
	defer first.Close()
	// H2 makes no database for who comes along. It has to have the settings of those who will connect.
	for _, q := range []string{
		`CREATE ALIAS IF NOT EXISTS RUN FOR "org.h2.tools.RunScript.execute"`,
		"CALL RUN('jdbc:h2:" + name + ";MODE=PostgreSQL;DATABASE_TO_LOWER=TRUE;DEFAULT_NULL_ORDERING=HIGH;DB_CLOSE_DELAY=-1', '" +
			cfg.User + "', '" + cfg.Password + "', '/dev/null', NULL, FALSE)",
	} {
		if _, err := first.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	cfg = cfg.Copy()
	cfg.Database, cfg.Tracer = name, newGate()
	h := h2{cfg}
	db := h.connect()
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if _, err := db.Exec("SET DB_CLOSE_DELAY 0"); err != nil { // it ends with the last connection
			t.Error(err)
		}
		db.Close()
	})
	for _, q := range []string{"SET DEFAULT_LOCK_TIMEOUT 10000", "SET OPTIMIZE_REUSE_RESULTS 0"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h h2) connect() *sql.DB { return stdlib.OpenDB(*h.ConnConfig) }

// gate keeps log-ins and statements apart. H2 turns the whole database to PostgreSQL's mode at each
// log-in, until the client turns it back: another log-in would hang up, and a statement would not
// be understood. A statement of a transaction that has begun is let through, because one that runs
// may wait for the end of it.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	running int  // statements
	waiting int  // log-ins
	login   bool // one has begun
}

func newGate() *gate {
	g := new(gate)
	g.changed = sync.NewCond(&g.mu)
	return g
}

func (g *gate) when(free func() bool, then func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !free() {
		g.changed.Wait()
	}
	then()
	g.changed.Broadcast()
}

func always() bool { return true }

func (g *gate) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	g.when(always, func() { g.waiting++ })
	g.when(func() bool { return !g.login && g.running == 0 }, func() { g.waiting, g.login = g.waiting-1, true })
	return ctx
}

func (g *gate) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) {
	g.when(always, func() { g.login = false })
}

func (g *gate) TraceQueryStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	begun := c.PgConn().TxStatus() != 'I'
	g.when(func() bool { return !g.login && (begun || g.waiting == 0) }, func() { g.running++ })
	return ctx
}

func (g *gate) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	g.when(always, func() { g.running-- })
}

// eager acknowledges at once what it reads: the server sends small packets and waits for each.
type eager struct{ *net.TCPConn }

func (e eager) Read(b []byte) (int, error) {
	if raw, err := e.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	}
	return e.TCPConn.Read(b)
}

// speakH2 changes what belongs to the client and not to the statements: how a parameter is
// written, how bytes are passed, and the numbers of errors.
func speakH2() *sqlstore.Dialect {
	d := dialect()
	d.Bind = func(n int) string { return "$" + strconv.Itoa(n) }
	d.Blob = nil
	for i := range d.Schema { // its protocol takes bytes for BLOB columns as text
		d.Schema[i] = strings.ReplaceAll(d.Schema[i], " BLOB", " RAW(1048576)")
	}
	d.Ignore = func(err error) bool {
		s := state(err)
		return s == "42S01" || s == "42S11" || s == "23505" ||
			s == "HY000" && strings.Contains(err.Error(), "object already exists") // two that create it at once
	}
	d.Fate = func(err error) sqlstore.Fate {
		switch state(err) {
		case "40001", "HYT00", "23505": // a deadlock, a lock that took too long, two that insert one key
			return sqlstore.Again
		}
		return sqlstore.Failed
	}
	return d
}

func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func (h h2) Open(t testing.TB, o registrydriver.Options) *registrytest.Process {
	t.Helper()
	gate := new(hook.Gate)
	s, err := openStore(gate.With(t.Context()), h.connect(), speakH2(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	inner, err := kv.Namespace(s, o.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Process{Registry: registry.New(inner), Kill: s.Abandon, Freeze: gate.Shut, Thaw: gate.Open}
}

// Whoever is let in may run Java as the server's user.
func TestH2LetsNobodyIn(t *testing.T) {
	t.Parallel()
	cfg, err := pgx.ParseConfig(testserver.Private(t, "h2").URL() + "?sslmode=disable&default_query_exec_mode=cache_describe")
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(c *pgx.ConnConfig){
		"its user":           func(*pgx.ConnConfig) {},
		"no password":        func(c *pgx.ConnConfig) { c.Password = "" },
		"the usual password": func(c *pgx.ConnConfig) { c.Password = "sa" },
		"another database":   func(c *pgx.ConnConfig) { c.Database = "mem:another" },
		"a database on disk": func(c *pgx.ConnConfig) { c.Database = "./another" },
		"another network":    func(c *pgx.ConnConfig) { c.Host = "127.0.0.2" },
	} {
		c := cfg.Copy()
		change(c)
		x, err := pgx.ConnectConfig(t.Context(), c)
		if err == nil {
			_ = x.Close(t.Context())
		}
		if (err == nil) != (what == "its user") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
