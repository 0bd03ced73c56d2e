package back

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
)

// past is a registry of a test that can go back. save keeps it as it is, and returns what brings that back.
type past interface {
	url() string
	save() (back func())
}

// pasts make a registry for a namespace, by the name of its store.
func pasts() map[string]func(t *testing.T, namespace string) past {
	return map[string]func(t *testing.T, namespace string) past{
		"file":     func(t *testing.T, _ string) past { return &folder{t, filepath.Join(t.TempDir(), "registry")} },
		"redis":    newKeyspace,
		"postgres": newSchema,
	}
}

func unique() string { return fmt.Sprintf("back_%08x", rand.Uint32()) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder is a directory that no process has open while it is copied.
type folder struct {
	t   *testing.T
	dir string
}

func (f *folder) url() string { return "file://" + f.dir }

func (f *folder) save() (back func()) {
	f.t.Helper()
	kept := filepath.Join(f.t.TempDir(), "kept")
	replace(f.t, f.dir, kept)
	return func() { replace(f.t, kept, f.dir) }
}

// replace makes a folder a copy of another one, which may be missing.
func replace(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	if _, err := os.Stat(from); err == nil {
		must(t, os.CopyFS(to, os.DirFS(from)))
		must(t, os.Chmod(to, 0o700))
	}
}

// keyspace is what one namespace has in a Redis.
type keyspace struct {
	t       *testing.T
	raw     string
	pattern string
	client  rueidis.Client
}

func newKeyspace(t *testing.T, namespace string) past {
	t.Helper()
	raw := testserver.URL(t, "redis")
	o, err := rueidis.ParseURL(raw)
	must(t, err)
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	must(t, err)
	k := &keyspace{t, raw, "{ringfence/" + url.QueryEscape(namespace) + "}:", c}
	t.Cleanup(func() {
		k.eval(`for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end return {}`)
		c.Close()
	})
	return k
}

func (k *keyspace) url() string { return k.raw }

func (k *keyspace) eval(script string, args ...string) []string {
	k.t.Helper()
	cmd := k.client.B().Eval().Script(script).Numkeys(0).Arg(k.pattern).Arg(args...).Build()
	all, err := k.client.Do(context.Background(), cmd).AsStrSlice() // also while the test is cleaned up
	must(k.t, err)
	return all
}

func (k *keyspace) save() (back func()) {
	k.t.Helper()
	kept := k.eval(`local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  all[#all + 1] = key; all[#all + 1] = redis.call('DUMP', key); all[#all + 1] = tostring(math.max(redis.call('PTTL', key), 0))
end
return all`)
	return func() {
		k.t.Helper()
		k.eval(`for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end
for i = 2, #ARGV, 3 do redis.call('RESTORE', ARGV[i], ARGV[i + 2], ARGV[i + 1]) end
redis.call('PUBLISH', ARGV[1] .. '0:changes', '')
return {}`, kept...)
	}
}

// schema is one of a PostgreSQL.
type schema struct {
	t    *testing.T
	raw  string
	name string
	conn *pgx.Conn
}

func newSchema(t *testing.T, _ string) past {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "postgres"))
	must(t, err)
	conn, err := pgx.Connect(t.Context(), u.String())
	must(t, err)
	s := &schema{t, "", unique(), conn}
	q := u.Query()
	q.Set("schema", s.name)
	u.RawQuery = q.Encode()
	s.raw = u.String()
	t.Cleanup(func() {
		s.exec(`SET client_min_messages = warning; DROP SCHEMA IF EXISTS %[1]s CASCADE; DROP SCHEMA IF EXISTS %[1]s_kept CASCADE`)
		must(t, conn.Close(context.Background())) // the test's context has ended
	})
	return s
}

func (s *schema) url() string { return s.raw }

func (s *schema) exec(sql string) {
	s.t.Helper()
	for {
		_, err := s.conn.Exec(context.Background(), fmt.Sprintf(sql, s.name)) // also while the test is cleaned up
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "40P01" { // a deadlock with a process that lives
			must(s.t, err)
			return
		}
		_, err = s.conn.Exec(context.Background(), "ROLLBACK")
		must(s.t, err)
	}
}

func (s *schema) save() (back func()) {
	s.t.Helper()
	s.exec(`BEGIN; SET LOCAL client_min_messages = warning; DROP SCHEMA IF EXISTS %[1]s_kept CASCADE; CREATE SCHEMA %[1]s_kept;
CREATE TABLE %[1]s_kept.entry AS TABLE %[1]s.entry; CREATE TABLE %[1]s_kept.session AS TABLE %[1]s.session; COMMIT`)
	return func() {
		s.t.Helper()
		s.exec(`BEGIN; LOCK TABLE %[1]s.session, %[1]s.entry; DELETE FROM %[1]s.entry; DELETE FROM %[1]s.session;
INSERT INTO %[1]s.session TABLE %[1]s_kept.session; INSERT INTO %[1]s.entry TABLE %[1]s_kept.entry; SELECT %[1]s.tell_1('s *'); COMMIT`)
	}
}

// values is a registry whose values go back by its own calls: what processes have open can't be copied in a folder.
type values struct {
	past
	t   *testing.T
	reg func() *registry.Registry
}

func (v *values) save() (back func()) {
	v.t.Helper()
	snap, err := v.reg().List(v.t.Context(), "")
	must(v.t, err)
	return func() {
		v.t.Helper()
		now, err := v.reg().List(v.t.Context(), "")
		must(v.t, err)
		var txn registry.Txn
		had := map[string]bool{}
		for _, e := range snap.Entries {
			if e.Session == "" {
				txn.Puts, had[e.Key] = append(txn.Puts, registry.Put{Key: e.Key, Value: e.Value}), true
			}
		}
		for _, e := range now.Entries {
			if e.Session == "" && !had[e.Key] {
				txn.Deletes = append(txn.Deletes, e.Key)
			}
		}
		_, err = v.reg().Txn(v.t.Context(), txn)
		must(v.t, err)
	}
}
