package sqlregistry

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/internal/testserver"
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

// server is a MariaDB of one test.
type server struct {
	t   *testing.T
	dir string
}

func newServer(t *testing.T) *server {
	t.Helper()
	testserver.URL(t, "mariadb") // installed, then
	dir, err := os.MkdirTemp("", "rf-mariadb-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server has a user of its own
		t.Fatal(err)
	}
	s := &server{t: t, dir: dir}
	t.Cleanup(func() {
		s.do("stop")
		os.RemoveAll(dir)
		os.Remove(filepath.Join(dir, "s.lock"))
	})
	return s
}

func (s *server) do(verb string) string {
	s.t.Helper()
	cmd := exec.Command("../../scripts/services", verb, "mariadb")
	cmd.Env = append(os.Environ(), "RINGFENCE_SERVICES="+s.dir+"/s")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("services %s: %v", verb, err)
	}
	if m := regexp.MustCompile(`RINGFENCE_MARIADB_URL='?([^'\s]+)`).FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}

func TestAServerThatIsKilledOrStoppedIsAPause(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	u := s.do("start")
	a, b := openURL(t, u), openURL(t, u)
	var sessions []registry.Session
	for _, r := range []*registry.Registry{a, b} {
		x, err := r.OpenSession(t.Context(), 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, x)
	}
	if _, err := a.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "bound", Session: sessions[0].ID()}, {Key: "k", Value: []byte("acked")}}}); err != nil {
		t.Fatal(err)
	}
	ch, err := b.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	short := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := a.List(ctx, "")
		return err
	}

	s.do("kill")
	if err := short(); !errors.Is(err, registry.ErrUnavailable) {
		t.Fatalf("a dead server: %v", err)
	}
	s.do("start")
	await(t, func() bool { return short() == nil })
	if get(t, b, "k") != "acked" {
		t.Fatal("what was acknowledged is gone")
	}

	s.do("freeze")
	if err := short(); !errors.Is(err, registry.ErrUnavailable) {
		t.Fatalf("a frozen server: %v", err)
	}
	s.do("thaw")
	await(t, func() bool { return short() == nil })

	for len(ch) > 0 {
		<-ch
	}
	put(t, a, "after", "x")
	select {
	case <-ch:
	case <-time.After(15 * time.Second):
		t.Fatal("no signal after the server came back")
	}
	for _, x := range sessions {
		select {
		case <-x.Done():
			t.Fatal("a session ended although its process lives and its TTL was not over")
		default:
		}
	}
	if len(list(t, b, "bound")) != 1 {
		t.Fatal("the entry of a living session is gone")
	}
}
