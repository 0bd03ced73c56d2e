package oracle

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5" // H2 speaks the wire protocol of PostgreSQL
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// h2 is a database in the memory of an H2 server, in Oracle mode.
type h2 string

func newH2(t testing.TB) registrytest.Store {
	u, err := url.Parse(testserver.URL(t, "h2"))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/mem:" + strings.ToLower(rand.Text()[:12])
	u.RawQuery = "sslmode=disable&default_query_exec_mode=cache_describe"
	h := h2(u.String())
	db := h.connect(t)
	db.SetMaxOpenConns(1) // the database lives as long as this connection
	t.Cleanup(func() { db.Close() })
	for _, q := range []string{"SET DEFAULT_LOCK_TIMEOUT 10000", "SET OPTIMIZE_REUSE_RESULTS 0"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// connect opens the database. The server sets PostgreSQL's mode at each log-in, for all of it; the
// client sets it back at once, and what another connection did in between is done again.
func (h h2) connect(t testing.TB) *sql.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(string(h))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return eager{c.(*net.TCPConn)}, nil
	}
	return sql.OpenDB(patient{stdlib.GetConnector(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET MODE Oracle")
		return err
	}))})
}

// patient connects again when the server hangs up: H2 does that to some of many who log in at once.
type patient struct{ driver.Connector }

func (p patient) Connect(ctx context.Context) (c driver.Conn, err error) {
	for range 10 {
		if c, err = p.Connector.Connect(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return c, err
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
		return s == "42S01" || s == "42S11" || s == "23505"
	}
	d.Fate = func(err error) sqlstore.Fate {
		switch state(err) {
		case "40001", "HYT00", // a deadlock, a lock that took too long
			"HY004", "42S02", "42S22", "42000", "42001", "23505": // in the wrong mode for a moment
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
	s, err := openStore(t.Context(), h.connect(t), speakH2(), o)
	for try := 0; err != nil && try < 20; try++ { // in the wrong mode for a moment
		s, err = openStore(t.Context(), h.connect(t), speakH2(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	inner, err := kv.Namespace(s, o.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Process{Registry: registry.New(inner), Kill: s.Abandon, Freeze: func() { s.Freeze(true) }, Thaw: func() { s.Freeze(false) }}
}

func TestStatementsOnH2InOracleMode(t *testing.T) {
	t.Parallel()
	registrytest.Run(t, registrytest.Harness{Store: newH2, Many: 200, TTL: 3 * time.Second})
}

// The premise of the dialect, and a check that H2 behaves as Oracle does in this.
func TestTheEmptyStringIsNull(t *testing.T) {
	t.Parallel()
	db := newH2(t).(h2).connect(t)
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM DUAL WHERE '' = ''").Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d rows, %v", n, err)
	}
	d := dialect()
	for _, q := range append([]string{d.Upsert(1), d.Now(), d.ForUpdate, d.ForShare, d.Hint}, d.Schema...) {
		if strings.Contains(q, "''") {
			t.Errorf("a statement compares with or stores the empty string: %s", q)
		}
	}
}

func TestAURLIsReadOrRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"oracle://u:secret@h:1521/s?nonsense=1", "oracle://u:secret@h:1521/", "oracle://u:secret@:1521/s", "oracle://h/s", "oracle://u:secret@h/s?ssl=perhaps",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, registrydriver.Options{})
		if !errors.Is(err, registry.ErrInvalid) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestADatabaseThatDoesNotAnswerIsUnavailableAndKeepsTheSecret(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("oracle://u:secret@127.0.0.1:1/s")
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenURL(t.Context(), u, registrydriver.Options{})
	if !errors.Is(err, registry.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("%v", err)
	}
}
