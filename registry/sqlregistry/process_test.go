package sqlregistry

import (
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

func mysqlURL(c *mysql.Config) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(c.User, c.Passwd), Host: c.Addr, Path: "/" + c.DBName}
	return u.String()
}

func openURL(t *testing.T, raw string) *registry.Registry {
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

func TestAKilledProcessIsNoticedLongBeforeItsTTL(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*testing.T) string{
		"MariaDB": func(t *testing.T) string { return mysqlURL(newDatabase(t)) },
		"SQLite":  func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "r.db") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := source(t)
			r := openURL(t, u)
			x, err := r.OpenSession(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "keep", Session: x.ID()}}}); err != nil {
				t.Fatal(err)
			}
			ch, err := r.Watch(t.Context(), "member/")
			if err != nil {
				t.Fatal(err)
			}
			var took []time.Duration
			for range 5 {
				cmd := spawn(t, u)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				for late := time.After(20 * time.Second); len(list(t, r, "member/")) > 0; {
					select {
					case <-ch:
					case <-late:
						t.Fatal("its entry is still there")
					}
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			t.Logf("from kill -9 to the watch's list: median %s, worst %s", took[len(took)/2], took[len(took)-1])
			if took[len(took)/2] > 2*time.Second {
				t.Errorf("median %s", took[len(took)/2])
			}
			if len(list(t, r, "keep")) != 1 {
				t.Error("a living session's entry went as well")
			}
		})
	}
}

func list(t *testing.T, r *registry.Registry, prefix string) []registry.Entry {
	t.Helper()
	snap, err := r.List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return snap.Entries
}
