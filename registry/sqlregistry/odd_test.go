package sqlregistry

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// onEach runs a test on a database of each kind, with a connection to that of the sessions.
func onEach(t *testing.T, test func(t *testing.T, c Config, sessions *sql.DB)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "registry.db")
		openStore(t, Config{File: path}) // it makes the files, for their owner alone
		db, err := sql.Open("sqlite", "file:"+path+"-sessions?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		test(t, Config{File: path}, db)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		c := newDatabase(t)
		openStore(t, Config{MySQL: c})
		test(t, Config{MySQL: c}, sqlDB(t, c))
	})
}

// oddSessions are what somebody else may have written into the table of sessions.
func oddSessions(sqlite bool) []string {
	far := "SELECT id, process, ttl, expires + 90000000000 FROM ringfence_sessions LIMIT 1"
	odd := []string{
		"'far', " + strings.Replace(strings.TrimPrefix(far, "SELECT id, "), "process", "'far'", 1),
		"'ever', 'ever', 1000000, 9223372036854775807",
		"'never', 'never', 1000000, -9223372036854775808",
		"'lease', 'lease', 9223372036854775807, 1",
		"'negative', 'negative', -1, 1",
		"'../../x', '../../x', 1000000, 1",
		"'" + "a b" + "', '\x1b[2J', 1000000, 1",
	}
	if sqlite {
		odd = append(odd,
			"'text', 'text', 1000000, 'tomorrow'", "'real', 'real', 1000000, 1e300", "'inf', 'inf', 9e999, 9e999", "'blob', 'blob', 1, zeroblob(3000000)",
			"zeroblob(3000000), 'x', 1000000, 1", "'many', zeroblob(3000000), 1000000, 1", "7, 8, 1000000, 1", "'', '', 1000000, 5.5")
	}
	return odd
}

// Rows that none of ours wrote stop no round, hide no session, and do not live for ever; the first is named, once.
func TestSessionsThatNoneOfUsOpenedAreEndedAndTheOthersAreSeen(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, sessions *sql.DB) {
		var log testlog.Buffer
		named := c
		named.Logger = log.Logger()
		a, b := openStore(t, named), openStore(t, c)
		hold(t, a, "a", time.Minute)
		hold(t, b, "b", time.Minute)
		rows := func() (n int) {
			if err := sessions.QueryRow("SELECT COUNT(*) FROM ringfence_sessions").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		await(t, func() bool { return rows() == 2 })
		for _, odd := range oddSessions(c.File != "") {
			from := "VALUES (" + odd + ")"
			if strings.Contains(odd, " FROM ") {
				from = "SELECT " + odd
			}
			if _, err := sessions.Exec("INSERT INTO ringfence_sessions (id, process, ttl, expires) " + from); err != nil {
				t.Fatalf("%.60s: %v", odd, err)
			}
			x := hold(t, b, "new", time.Minute) // has everybody look
			await(t, func() bool { return rows() == 3 })
			if err := x.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return rows() == 2 })
		}
		if n := log.Count("none of ours"); n > len(oddSessions(c.File != "")) {
			t.Errorf("they are told of %d times", n)
		}
		dead := openStore(t, c)
		hold(t, dead, "dead", time.Minute)
		dead.Abandon()
		await(t, func() bool { return keys(t, b) == "a b" })
	})
}

// keys are those of all entries.
func keys(t *testing.T, s *sqlstore.Store) string {
	t.Helper()
	snap, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range snap.Entries {
		all = append(all, e.Key)
	}
	return strings.Join(all, " ")
}

// What is bound to such a session goes with it, and what is bound to none that is there; who opens
// the registry sees to that, and says which it was.
func TestWhatIsBoundToASessionThatNoneOfUsOpenedIsGoneAtOpen(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, sessions *sql.DB) {
		s := openStore(t, c)
		x := hold(t, s, "odd", time.Minute)
		y := hold(t, s, "orphan", time.Minute)
		if _, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "free"}}}}); err != nil {
			t.Fatal(err)
		}
		s.Abandon()
		for _, q := range []string{
			"UPDATE ringfence_sessions SET process = 'no name', expires = 9223372036854775807 WHERE id = '" + x.ID() + "'",
			"DELETE FROM ringfence_sessions WHERE id = '" + y.ID() + "'",
		} {
			if r, err := sessions.Exec(q); err != nil {
				t.Fatal(err)
			} else if n, err := r.RowsAffected(); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		var log testlog.Buffer
		c.Logger = log.Logger()
		if found := keys(t, openStore(t, c)); found != "free" || log.Count(x.ID()) != 1 {
			t.Errorf("there is %q; expected what is bound to nothing; the session is named %d times", found, log.Count(x.ID()))
		}
	})
}
