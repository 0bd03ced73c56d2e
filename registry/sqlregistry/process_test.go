package sqlregistry

import (
	"net/url"
	"os"
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

func TestAProcessThatDiedUnwatchedIsNoticedByTheNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, u := range map[string]string{
		"MariaDB":                  mysqlURL(newDatabase(t)),
		"SQLite":                   "sqlite://" + filepath.Join(dir, "r.db"),
		"SQLite, without its FIFO": "sqlite://" + filepath.Join(dir, "f.db"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := spawn(t, u)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if name == "SQLite, without its FIFO" { // whoever opened the file removed it, and died
				left, err := filepath.Glob(filepath.Join(dir, "f.db-live-*"))
				if err != nil || len(left) != 1 {
					t.Fatal(left, err)
				}
				if err := os.Remove(left[0]); err != nil {
					t.Fatal(err)
				}
			}
			r := openURL(t, u)
			await(t, func() bool { return len(list(t, r, "member/")) == 0 })
		})
	}
}

func TestAFileIsTheSameByEveryName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(filepath.Join(dir, "r.db"), link); err != nil {
		t.Fatal(err)
	}
	x := bind(t, openURL(t, "sqlite://"+link), "bound", time.Minute)
	r := openURL(t, "sqlite://"+filepath.Join(dir, "r.db"))
	hereToo := bind(t, r, "other", time.Minute)
	select {
	case <-x.Done():
		t.Error("the session of a living process ended")
	case <-hereToo.Done():
		t.Error("the session of the second process ended")
	case <-time.After(time.Second):
	}
	if len(list(t, r, "bound")) != 1 {
		t.Error("the entry of a living process is gone")
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
