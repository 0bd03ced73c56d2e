package sqlregistry

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// openStore is a process on a database.
func openStore(t *testing.T, c Config) *sqlstore.Store {
	t.Helper()
	s, err := open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// hold opens a session of a process, with one entry if key is not empty.
func hold(t *testing.T, s *sqlstore.Store, key string, ttl time.Duration) driver.Session {
	t.Helper()
	x, err := s.OpenSession(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	if key == "" {
		return x
	}
	if _, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: key, Session: x.ID()}}}}); err != nil {
		t.Fatal(err)
	}
	return x
}

// present is the name of the lock of a session's process.
func present(t *testing.T, db *sql.DB, session string) string {
	t.Helper()
	var process string
	if err := db.QueryRow("SELECT process FROM ringfence_sessions WHERE id = ?", session).Scan(&process); err != nil {
		t.Fatal(err)
	}
	return lockPrefix + process
}

// holderOf is the connection that holds a lock; 0: none.
func holderOf(t *testing.T, db *sql.DB, lock string) int64 {
	t.Helper()
	var id sql.NullInt64
	if err := db.QueryRow("SELECT IS_USED_LOCK(?)", lock).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id.Int64
}

func kill(t *testing.T, db *sql.DB, id int64) {
	t.Helper()
	if _, err := db.Exec(fmt.Sprintf("KILL CONNECTION %d", id)); err != nil && number(err) != errNoSuchThread {
		t.Fatal(err)
	}
}

func TestAProcessThatLosesOneConnectionLivesAndDoubtsUntilItIsBack(t *testing.T) {
	t.Parallel()
	c := newDatabase(t)
	a, b, db := openStore(t, Config{MySQL: c}), openStore(t, Config{MySQL: c}), sqlDB(t, c)
	hold(t, b, "", time.Minute)
	x := hold(t, a, "m", time.Minute)
	lock := present(t, db, x.ID())
	await(t, func() bool { // b watches a, and a listens
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND state = 'User lock' AND info LIKE ?",
			c.DBName, "%'"+lock+"'%").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0 && holderOf(t, db, bellPrefix+lock[len(lockPrefix):]) != 0
	})
	for range 3 {
		old := holderOf(t, db, lock)
		kill(t, db, old)
		await(t, func() bool { now := holderOf(t, db, lock); return now != 0 && now != old })
	}

	conn, err := sqlDB(t, c).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await(t, func() bool { // somebody else gets the lock, as one who watches might
		kill(t, db, holderOf(t, db, lock))
		var got bool
		if err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0.5)", lock).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	})
	await(t, x.(driver.Doubter).Doubtful)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return !x.(driver.Doubter).Doubtful() })
	select {
	case <-x.Done():
		t.Error("the session of a living process ended")
	default:
	}
	if read(t, b, "m") != "" {
		t.Error("the entry of a living process is gone")
	}
}

// While a server hangs, living processes give their connections up, and their locks with them.
func TestNoDeathIsCertainAfterTheServerHung(t *testing.T) {
	t.Parallel()
	c := newDatabase(t)
	openStore(t, Config{MySQL: c}) // the tables
	p := testserver.NewProxy(t, mysqlURL(c))
	slow := c.Clone()
	slow.Addr = p.Addr()
	db := sqlDB(t, slow)
	db.SetMaxOpenConns(4) // the listener has two
	m := &mysqlSignals{db: db, calls: db, handle: "watcher", database: c.DBName}
	defer func() {
		if m.bell != nil {
			m.dropBell()
		}
	}()
	certain := func() bool {
		dead, err := m.Gone(t.Context(), "gone")
		if err != nil && !errors.Is(err, sqlstore.ErrNoPresence) {
			t.Fatal(err)
		}
		return dead
	}
	listen := func() {
		if err := m.Listen(t.Context(), -1); err != nil { // another revision: it is answered at once
			t.Fatal(err)
		}
	}
	listen()
	await(t, certain)                                    // the server may have started just now
	p.Down(testserver.Fault{Delay: listenWait/2 + hung}) // each way
	listen()
	p.Heal()
	if certain() {
		t.Error("a process without a lock is taken for dead")
	}
}

func TestAListenerThatComesBackKeepsItsRow(t *testing.T) {
	t.Parallel()
	c := newDatabase(t)
	openStore(t, Config{MySQL: c})
	db := sqlDB(t, c)
	if _, err := db.Exec("INSERT INTO ringfence_listeners VALUES ('back', UNIX_TIMESTAMP()), ('gone', UNIX_TIMESTAMP() - 3600), ('future', UNIX_TIMESTAMP() + 3600), ('end', 9223372036854775807), ('beginning', -9223372036854775808)"); err != nil {
		t.Fatal(err)
	}
	m := &mysqlSignals{calls: db}
	for _, process := range []string{"back", "gone", "future", "end", "beginning"} { // both had no connection when somebody looked
		if err := m.strike(t.Context(), process); err != nil {
			t.Fatal(err)
		}
	}
	var left string
	if err := db.QueryRow("SELECT GROUP_CONCAT(process) FROM ringfence_listeners").Scan(&left); err != nil || left != "back" {
		t.Fatalf("%q are left, %v; expected the one that came back", left, err)
	}
}

func TestASessionThatRanOutIsEndedAtOnce(t *testing.T) {
	t.Parallel()
	const ttl, most, tries = 4 * time.Second, time.Second, 3 // a machine may stall once or twice
	onBoth(t, func(t *testing.T, c Config, db *sql.DB) {
		s := openStore(t, c)
		db = sessionsDB(t, c, db)
		for try := 1; ; try++ {
			x := hold(t, s, "", time.Hour) // has all sessions looked at
			opened := time.Now()
			if _, err := db.Exec(fmt.Sprintf("INSERT INTO ringfence_sessions SELECT 'short', process, ttl, expires - ttl + %d FROM ringfence_sessions WHERE id = ?", ttl.Microseconds()), x.ID()); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool {
				var n int
				if err := db.QueryRow("SELECT COUNT(*) FROM ringfence_sessions WHERE id = 'short'").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n == 0
			})
			late := time.Since(opened.Add(ttl))
			if late <= most {
				return
			}
			if t.Logf("ended %s late", late); try == tries {
				t.Fatalf("sessions that run out end late %d times of %d", tries, tries)
			}
		}
	})
}

// onBoth runs a test on each kind of database, with a handle of its own on it.
func onBoth(t *testing.T, run func(t *testing.T, c Config, db *sql.DB)) {
	t.Helper()
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		c := newDatabase(t)
		run(t, Config{MySQL: c}, sqlDB(t, c))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "r.db")
		run(t, Config{File: path}, sqliteDB(t, path))
	})
}

func sqliteDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// sessionsDB is a handle on where a registry has its sessions: in SQLite in a file of their own.
func sessionsDB(t *testing.T, c Config, db *sql.DB) *sql.DB {
	t.Helper()
	if c.File == "" {
		return db
	}
	return sqliteDB(t, c.File+"-sessions")
}

func TestASessionThatOthersEndedIsOverLongBeforeItsNextRenewal(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c Config, db *sql.DB) {
		x := hold(t, openStore(t, c), "m", time.Hour)
		if _, err := sessionsDB(t, c, db).Exec("DELETE FROM ringfence_sessions"); err != nil {
			t.Fatal(err)
		}
		ended(t, x)
	})
}
