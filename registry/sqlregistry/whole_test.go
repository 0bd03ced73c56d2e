package sqlregistry

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// A registry without a row that it has since it was made is told as damaged, with what puts it back:
// never as an empty one, and never as whole.
func TestARegistryThatLacksARowIsDamagedAndNotEmpty(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, _ *sql.DB) {
		s := openStore(t, c)
		put := func(key string) error {
			r, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: key}}}})
			if err == nil {
				err = r[0].Err
			}
			return err
		}
		if err := put("k"); err != nil {
			t.Fatal(err)
		}
		var db *sql.DB
		if c.MySQL != nil {
			db = sqlDB(t, c.MySQL)
		} else {
			var err error
			if db, err = sql.Open("sqlite", "file:"+c.File+"?_pragma=busy_timeout(10000)"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
		}
		damaged := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "INSERT INTO ringfence_") {
				t.Errorf("%s: %v; expected that it is damaged, and what mends it", what, err)
			}
		}
		mend := func(table, insert string) {
			t.Helper()
			if _, err := db.Exec("DELETE FROM " + table); err != nil {
				t.Fatal(err)
			}
			again, err := open(t.Context(), c)
			damaged("opened without "+table, err)
			if err == nil {
				again.Close()
			}
			if insert == "" {
				return
			}
			if _, err := db.Exec("INSERT INTO " + table + insert); err != nil {
				t.Fatal(err)
			}
			if again, err = open(t.Context(), c); err != nil {
				t.Errorf("after what mends it: %v", err)
			} else {
				again.Close()
			}
		}
		mend("ringfence_schema", " (id, version) VALUES (1, 1)")
		if c.MySQL != nil {
			mend("ringfence_slots", "")
			damaged("a new key without slots", put("new"))
		}
		if _, err := db.Exec("INSERT INTO ringfence_revision (id, revision) VALUES (2, 7)"); err != nil {
			t.Fatal(err)
		}
		if snap, err := s.List(t.Context(), ""); err != nil || len(snap.Entries) != 1 {
			t.Errorf("with a row too many there are %d entries, %v; expected the one", len(snap.Entries), err)
		}
		mend("ringfence_revision", "")
		_, err := s.List(t.Context(), "")
		damaged("a list", err)
		damaged("a put", put("k"))
		_, err = s.OpenSession(t.Context(), time.Minute)
		damaged("a session", err)
		if _, err := db.Exec("INSERT INTO ringfence_revision (id, revision) SELECT 1, COALESCE(MAX(revision), 0) + 1 FROM ringfence_changes"); err != nil {
			t.Fatal(err)
		}
		if err := put("k"); err != nil {
			t.Errorf("after what mends it: %v", err)
		}
	})
}
