package sqlregistry

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// proxy stands between a registry and the server, and can cut what flows.
type proxy struct {
	l      net.Listener
	target string
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
	// onRequest sees each packet of requests; true cuts the connection once it was passed on.
	onRequest atomic.Pointer[func([]byte) bool]
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, s)
		p.mu.Unlock()
		var deaf atomic.Bool
		p.wg.Go(func() { p.requests(c, s, &deaf) })
		p.wg.Go(func() { p.answers(s, c, &deaf) })
	}
}

func (p *proxy) requests(from, to net.Conn, deaf *atomic.Bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if f := p.onRequest.Load(); f != nil && (*f)(buf[:n]) {
			deaf.Store(true)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answers ends the connection at the first answer after the one that is to be lost was asked for.
func (p *proxy) answers(from, to net.Conn, deaf *atomic.Bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || deaf.Load() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// behind opens a registry that reaches its server through a proxy, and one that reaches it straight.
func behind(t *testing.T) (*proxy, *registry.Registry, *registry.Registry) {
	t.Helper()
	cfg := newDatabase(t)
	p := newProxy(t, cfg.Addr)
	open := func(addr string) *registry.Registry {
		c := cfg.Clone()
		c.Addr = addr
		r, err := Open(t.Context(), Config{MySQL: c})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	return p, open(p.l.Addr().String()), open(cfg.Addr)
}

func put(t *testing.T, r *registry.Registry, key, value string) {
	t.Helper()
	if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(value)}}}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, r *registry.Registry, key string) string {
	t.Helper()
	e, err := r.Get(t.Context(), key)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		t.Fatal(err)
	}
	return string(e.Value)
}

func TestALostAnswerToACommitIsUnknownAndNotRepeated(t *testing.T) {
	t.Parallel()
	p, r, straight := behind(t)
	put(t, r, "k", "before")
	var commits atomic.Int32
	lose := func(b []byte) bool {
		if strings.HasSuffix(string(b), "COMMIT") {
			commits.Add(1)
			return true
		}
		return false
	}
	p.onRequest.Store(&lose)
	res, err := r.Apply(t.Context(), []registry.Txn{{Puts: []registry.Put{{Key: "k", Value: []byte("after")}}, Quiet: true}})
	if err != nil {
		t.Fatalf("the call as a whole: %v", err)
	}
	if !errors.Is(res[0].Err, registry.ErrUnknown) || commits.Load() != 1 {
		t.Fatalf("%v after %d commits; expected unknown after one", res[0].Err, commits.Load())
	}
	none := func([]byte) bool { return false }
	p.onRequest.Store(&none)
	if got := get(t, straight, "k"); got != "after" {
		t.Fatalf("the store has %q", got)
	}
	put(t, r, "k", "again") // the broken connection is not used again
}

func TestAConnectionThatIsCutBeforeTheCommitIsUnavailable(t *testing.T) {
	t.Parallel()
	p, r, straight := behind(t)
	put(t, r, "k", "before")
	lose := func(b []byte) bool { return strings.Contains(string(b), "FOR UPDATE") }
	p.onRequest.Store(&lose)
	if _, err := r.Apply(t.Context(), []registry.Txn{{Puts: []registry.Put{{Key: "k", Value: []byte("after")}}}}); !errors.Is(err, registry.ErrUnavailable) {
		t.Fatalf("%v; expected unavailable", err)
	}
	if got := get(t, straight, "k"); got != "before" {
		t.Fatalf("the store has %q", got)
	}
}

func TestASleepingListenerKeepsNoWriterOut(t *testing.T) {
	t.Parallel()
	cfg := newDatabase(t)
	r, err := Open(t.Context(), Config{MySQL: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put(t, r, "k", "x")
	if _, err := r.Watch(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	db := sqlDB(t, cfg)
	await(t, func() bool { // asleep
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND state = 'User lock'", cfg.DBName).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	if _, err := db.Exec("SET SESSION innodb_lock_wait_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE ringfence_revision SET revision = revision"); err != nil {
		t.Fatal(err)
	}
}

func sqlDB(t *testing.T, cfg *mysql.Config) *sql.DB {
	t.Helper()
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// rootOf is root of the server of cfg, who on the servers for tests has the same password; on one that
// somebody else started, maybe none.
func rootOf(t *testing.T, cfg *mysql.Config) *sql.DB {
	t.Helper()
	root := cfg.Clone()
	root.User = "root"
	admin := sqlDB(t, root)
	var denied *mysql.MySQLError
	if err := admin.PingContext(t.Context()); errors.As(err, &denied) {
		root.Passwd = ""
		return sqlDB(t, root)
	}
	return admin
}

// asRoot runs statements as root of the server of cfg.
func asRoot(t *testing.T, cfg *mysql.Config) func(format string, args ...any) {
	t.Helper()
	admin := rootOf(t, cfg)
	return func(format string, args ...any) {
		t.Helper()
		if _, err := admin.Exec(fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
}

// await looks until cond holds.
func await(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !cond(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not come true")
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func(*testing.T) (Config, *sql.DB){
		"MariaDB": func(t *testing.T) (Config, *sql.DB) {
			c := newDatabase(t)
			return Config{MySQL: c}, sqlDB(t, c)
		},
		"SQLite": func(t *testing.T) (Config, *sql.DB) {
			path := filepath.Join(t.TempDir(), "r.db")
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			return Config{File: path}, db
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, db := cfg(t)
			r, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			put(t, r, "k", "x")
			r.Close()
			if _, err := db.Exec("UPDATE ringfence_schema SET version = 2"); err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), cfg)
			if !errors.Is(err, registry.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "version 2") {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestAFileThatIsNoDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(path, []byte("dear all"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), Config{File: path})
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("%v; expected ErrInvalid", err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v; expected the letter only", list, err)
	}
}

func TestSQLiteMakesAFileAndNoDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	_, err := OpenURL(t.Context(), &url.URL{Scheme: "sqlite", Path: filepath.Join(dir, "r.db")}, driver.Options{})
	if !errors.Is(err, registry.ErrNotFound) || !strings.Contains(fmt.Sprint(err), dir) {
		t.Errorf("got %v; want ErrNotFound with the directory", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v; want that it does not exist", dir, err)
	}
}

func TestAURLIsReadOrRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"mysql://u:s3cret@h:1/db?nonsense=1", "mysql://u:s3cret@h:1", "mysql://u:s3cret@h:1/a/b", "mysql://u:s3cret@/db", "mysql:u:s3cret@h/db",
		"mysql://u:s3cret@h/db?tls=maybe", "mysql://u:s3cret@h/db?tls=false&tls-ca=/x", "mysql://u:s3cret@h/db?tls-ca=/does/not/exist",
		"mysql://u:s3cret@h/db?tls=preferred&tls-ca=/x", "mysql://u:s3cret@h/db?tls=skip-verify&tls-ca=/x",
		"mysql://u:s3cret@h/db?tls-cert=/x", "mysql://u:s3cret@h/db?timeout=-1s", "other://u:s3cret@h/db",
		"sqlite://host/path", "sqlite:", "sqlite:///x?nonsense=1", "sqlite:///x?durability=perhaps",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		r, err := OpenURL(t.Context(), u, driver.Options{})
		if err == nil {
			r.Close()
		}
		if !errors.Is(err, registry.ErrInvalid) || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	u, err := url.Parse("mysql://us%40er:pa%2Fss%3A@[::1]/db?tls=true&timeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqlConfig(u, false)
	if err != nil {
		t.Fatal(err)
	}
	if c.User != "us@er" || c.Passwd != "pa/ss:" || c.Addr != "[::1]:3306" || c.DBName != "db" || c.TLS == nil || c.TLS.InsecureSkipVerify || c.TLS.ServerName != "::1" || c.Timeout != 2*time.Second {
		t.Errorf("%+v", c)
	}
}

func TestAServerThatCantBeReachedIsUnavailableAndItsPasswordStaysSecret(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = Open(t.Context(), Config{MySQL: &mysql.Config{User: "u", Passwd: "s3cret", Net: "tcp", Addr: l.Addr().String(), DBName: "db"}})
	if !errors.Is(err, registry.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "s3cret") {
		t.Errorf("%v", err)
	}
	refused := newDatabase(t)
	refused.Passwd = "s3cret but wrong"
	_, err = Open(t.Context(), Config{MySQL: refused})
	if !errors.Is(err, registry.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "s3cret") {
		t.Errorf("%v", err)
	}
}
