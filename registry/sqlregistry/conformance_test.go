package sqlregistry

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestMain(m *testing.M) {
	testserver.Waiting()
	goleak.VerifyTestMain(m)
}

func mysqlURL(c *mysql.Config) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(c.User, c.Passwd), Host: c.Addr, Path: "/" + c.DBName}
	return u.String()
}

func openURL(t testing.TB, raw string) *registry.Registry {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenURL(t.Context(), u, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func list(t *testing.T, r *registry.Registry, prefix string) []registry.Entry {
	t.Helper()
	snap, err := r.List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return snap.Entries
}

// store is one database, whose processes are handles of this test.
type store Config

func (c store) Open(t testing.TB, o driver.Options) *registrytest.Process {
	t.Helper()
	cfg := Config(c)
	cfg.Options = o
	gate := new(hook.Gate)
	s, err := open(gate.With(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d, err := kv.Namespace(s, o.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Process{Registry: registry.New(d), Kill: s.Abandon, Freeze: gate.Shut, Thaw: gate.Open}
}

// newDatabase makes a database on the shared server, for one test.
func newDatabase(t testing.TB) *mysql.Config {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "mariadb"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := mysqlConfig(u, false)
	if err != nil {
		t.Fatal(err)
	}
	name := "ringfence_" + strings.ToLower(rand.Text()[:12])
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	exec := func(q string) {
		if _, err := db.Exec(fmt.Sprintf(q, name)); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE DATABASE %s")
	t.Cleanup(func() { exec("DROP DATABASE %s") })
	cfg.DBName = name
	return cfg
}

func newMySQL(t testing.TB) registrytest.Store { return store{MySQL: newDatabase(t)} }

func newSQLite(t testing.TB) registrytest.Store {
	return store{File: filepath.Join(t.TempDir(), "registry.db")}
}

// far is a process whose server is far away.
func far(t testing.TB, s registrytest.Store, delay time.Duration) *registrytest.Process {
	t.Helper()
	u := mysqlURL(s.(store).MySQL)
	p := testserver.NewProxy(t, u)
	r := openURL(t, p.URL(u))
	p.Down(testserver.Fault{Delay: delay})
	return &registrytest.Process{Registry: r}
}

const ttl = 3 * time.Second // longer than a busy machine stalls

func TestMariaDBConformance(t *testing.T) {
	t.Parallel()
	registrytest.Run(t, registrytest.Harness{Store: newMySQL, Far: far, CrashNoticed: time.Second, TTL: ttl})
}

func TestSQLiteConformance(t *testing.T) {
	t.Parallel()
	registrytest.Run(t, registrytest.Harness{Store: newSQLite, CrashNoticed: time.Second, TTL: ttl, Many: 1000})
}

func TestMariaDBGroups(t *testing.T) { protocoltest.Run(t, newMySQL(t)) }

func TestSQLiteGroups(t *testing.T) { protocoltest.Run(t, newSQLite(t)) }
