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

// The clock of the store was set back after a session was opened.
func TestASessionThatExpiresTooLateIsEnded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, sessions *sql.DB) {
		var log testlog.Buffer
		named := c
		named.Logger = log.Logger()
		a, b := openStore(t, named), openStore(t, c)
		hold(t, a, "a", time.Minute)
		x := hold(t, b, "ahead", time.Minute)
		b.Abandon()
		if _, err := sessions.Exec("UPDATE ringfence_sessions SET process = 'gone', expires = expires + 90000000000 WHERE id = '" + x.ID() + "'"); err != nil {
			t.Fatal(err)
		}
		hold(t, a, "new", time.Minute) // has the keeper look
		await(t, func() bool { return keys(t, a) == "a new" })
	})
}

// Entries that are bound to a session which the table lacks are gone once a process opens the registry.
func TestOpenEndsSessionsThatTheTableLacks(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, sessions *sql.DB) {
		s := openStore(t, c)
		y := hold(t, s, "orphan", time.Minute)
		if _, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "free"}}}}); err != nil {
			t.Fatal(err)
		}
		s.Abandon()
		if _, err := sessions.Exec("DELETE FROM ringfence_sessions WHERE id = '" + y.ID() + "'"); err != nil {
			t.Fatal(err)
		}
		if found := keys(t, openStore(t, c)); found != "free" {
			t.Errorf("there is %q; expected what is bound to nothing", found)
		}
	})
}

// A renewal that comes late, as a network may keep it, does not bring back a session that others may have seen ended.
func TestARenewalDoesNotReviveASessionThatRanOut(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, sessions *sql.DB) {
		x := hold(t, openStore(t, c), "a", 3*time.Second)
		if _, err := sessions.Exec("UPDATE ringfence_sessions SET expires = 1 WHERE id = '" + x.ID() + "'"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-x.Done():
		case <-time.After(20 * time.Second):
			t.Error("the session goes on")
		}
	})
}
