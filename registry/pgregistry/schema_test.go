package pgregistry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

func TestASchemaOfANewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	d.open(t, driver.Options{})
	execute(t, d.url, "UPDATE "+d.schema+".format SET level = 7")
	_, err := open(t.Context(), Config{URL: d.url, Schema: d.schema})
	if !errors.Is(err, fault.Newer) || !strings.Contains(err.Error(), "format 7") {
		t.Errorf("error %v", err)
	}
}

func TestASchemaThatWasDroppedIsUnavailableUntilItIsMadeAnew(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	s := d.open(t, driver.Options{})
	execute(t, d.url, "DROP SCHEMA "+d.schema+" CASCADE")
	for _, err := range []error{reply(t, s, soon, driver.Txn{Puts: []driver.Put{{Key: "k"}}}), listed(t, s)} {
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "open the registry again") {
			t.Errorf("error %v", err)
		}
	}
	put(t, d.open(t, driver.Options{}), "k", "v")
	if got := get(t, s, "k"); string(got.Value) != "v" {
		t.Errorf("read %+v", got)
	}
}

func listed(t *testing.T, s *store) error {
	_, err := s.List(t.Context(), "")
	return err
}

// A server process that looked for the tables before somebody made them, and has no reason to look for anything
// else, believes that they are missing until its next transaction.
func TestASchemaThatSomebodyMakesMeanwhileIsTakenWhateverTheServerProcessKnew(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	s := d.open(t, driver.Options{})
	execute(t, d.url, "DROP SCHEMA "+d.schema+" CASCADE")
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), d.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hangUp(c) })
		return c
	}
	late, first := connect(), connect()
	if _, err := s.create(t.Context(), late); err != nil { // it knows all that this takes from now on
		t.Fatal(err)
	}
	execute(t, d.url, "DROP SCHEMA "+d.schema+" CASCADE")
	for range 2 {
		if level, err := s.level(t.Context(), late); level != 0 || err != nil {
			t.Fatal(level, err)
		}
		if _, err := late.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(1)); err != nil {
			t.Fatal(err)
		}
		for query, name := range map[string]string{`SELECT to_regclass($1) IS NOT NULL`: d.schema + ".format", isMade: d.schema} {
			if _, err := late.Exec(t.Context(), query, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("ringfence schema " + d.schema))
	made := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), first, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(h.Sum64())); err != nil {
			return err
		}
		go func() {
			level, err := s.create(t.Context(), late)
			if err == nil && level != formatLevel {
				err = fmt.Errorf("format %d", level)
			}
			made <- err
		}()
		watcher := connect()
		await(t, "it waits for the lock", func() (waits bool) {
			err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, late.PgConn().PID()).Scan(&waits)
			return err == nil && waits
		})
		_, err := tx.Exec(t.Context(), s.q.fill(schemaSQL), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err := errors.Join(err, <-made); err != nil {
		t.Error(err)
	}
}

// Twenty that start on a database where nothing was made make one schema, whatever its name needs
// in quotes.
func TestManyMakeOneSchemaAtOnce(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	d.schema = "Test_" + strings.TrimPrefix(d.schema, "test_")
	t.Cleanup(func() { execute(t, d.url, `DROP SCHEMA IF EXISTS "`+d.schema+`" CASCADE`) })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := open(t.Context(), Config{URL: d.url, Schema: d.schema, MaxConns: 1})
			if err != nil {
				t.Error(err)
				return
			}
			put(t, s, "k", "v")
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var levels int
	if err := c.QueryRow(t.Context(), `SELECT count(*) FROM "`+d.schema+`".format`).Scan(&levels); err != nil || levels != 1 {
		t.Errorf("%d rows of format, %v", levels, err)
	}
}

// Who comes first makes the schema, with the right that the guide names.
func TestTheFirstNeedsToCreateInTheDatabaseOnly(t *testing.T) {
	t.Parallel()
	admin := testserver.URL(t, "postgres")
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	name := "first_" + strings.ToLower(rand.Text()[:12])
	execute(t, admin, "CREATE ROLE "+name+" LOGIN PASSWORD '"+secret+"'")
	t.Cleanup(func() { execute(t, admin, "DROP OWNED BY "+name+" CASCADE"); execute(t, admin, "DROP ROLE "+name) })
	for _, grant := range testserver.Rights(t, "PostgreSQL, the first", "app", strings.Trim(u.Path, "/"), "rf", name) {
		execute(t, admin, grant)
	}
	u.User = url.UserPassword(name, secret)
	s := schemaStore{u.String(), name}.open(t, driver.Options{})
	bind(t, s, session(t, s, soon), "member")
}

// A role that may use the tables needs no more; one that lacks a right is told which.
func TestRightsThatSufficeAndRightsThatLack(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	owner := d.open(t, driver.Options{})
	role := "role_" + d.schema
	execute(t, d.url, "CREATE ROLE "+role+" LOGIN PASSWORD '"+secret+"'")
	t.Cleanup(func() { execute(t, d.url, "DROP OWNED BY "+role); execute(t, d.url, "DROP ROLE "+role) })
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, secret)
	limited := schemaStore{u.String(), d.schema}

	_, err = open(t.Context(), Config{URL: limited.url, Schema: limited.schema})
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "USAGE") {
		t.Errorf("without any right: %v", err)
	}
	for _, grant := range testserver.Rights(t, "PostgreSQL", "ringfence", d.schema, "rf", role) {
		execute(t, d.url, grant)
	}
	s := limited.open(t, driver.Options{})
	bind(t, s, session(t, s, soon), "member")
	if get(t, owner, "member").Version == "" {
		t.Error("the owner of the schema does not see what the role wrote")
	}
}

// What the database's defaults are must not matter.
func TestDefaultsOfTheDatabaseDoNotMatter(t *testing.T) {
	t.Parallel()
	admin := testserver.URL(t, "postgres")
	d := newStore(t, admin)
	role := "hard_" + d.schema
	execute(t, admin, "CREATE ROLE "+role+" LOGIN SUPERUSER PASSWORD '"+secret+"'")
	t.Cleanup(func() { execute(t, admin, "DROP OWNED BY "+role+" CASCADE"); execute(t, admin, "DROP ROLE "+role) })
	for _, setting := range []string{"synchronous_commit = off", "default_transaction_isolation = serializable", "search_path = pg_temp", "bytea_output = escape", "statement_timeout = '5s'", "extra_float_digits = -5", "DateStyle = German"} {
		execute(t, admin, "ALTER ROLE "+role+" SET "+setting)
	}
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, secret)
	hard := schemaStore{u.String(), d.schema}
	a, b := hard.open(t, driver.Options{}), hard.open(t, driver.Options{})
	var wg sync.WaitGroup
	for _, s := range []*store{a, b} {
		wg.Go(func() {
			for range 20 {
				put(t, s, "k", "v")
			}
		})
	}
	wg.Wait()
	x := session(t, a, soon)
	bind(t, a, x, "member")
	if err := x.Close(t.Context()); err != nil || get(t, b, "member").Version != "" {
		t.Errorf("after the session was closed: %v", err)
	}
	c, err := pgx.Connect(t.Context(), hard.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	err = pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
		var level string
		if _, err := tx.Exec(t.Context(), "SELECT "+d.schema+".begin_1()"); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&level); err != nil || level != "on" {
			t.Errorf("writes commit with synchronous_commit = %q, %v", level, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A replica shows what was, and takes no writes.
func TestAServerThatAcceptsNoWritesIsNotReadFrom(t *testing.T) {
	t.Parallel()
	admin := testserver.URL(t, "postgres")
	d := newStore(t, admin)
	put(t, d.open(t, driver.Options{}), "k", "v")
	role := "replica_" + d.schema
	execute(t, admin, "CREATE ROLE "+role+" LOGIN SUPERUSER PASSWORD '"+secret+"'")
	t.Cleanup(func() { execute(t, admin, "DROP ROLE "+role) })
	execute(t, admin, "ALTER ROLE "+role+" SET default_transaction_read_only = on")
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, secret)
	for _, wanted := range []string{"", "any", "prefer-standby", "read-only"} {
		q := u.Query()
		if q.Del("target_session_attrs"); wanted != "" {
			q.Set("target_session_attrs", wanted)
		}
		u.RawQuery = q.Encode()
		s, err := open(t.Context(), Config{URL: u.String(), Schema: d.schema})
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("target_session_attrs %q: %v", wanted, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}

// The clock of the server was set back after a session was opened.
func TestSweepEndsASessionThatExpiresTooLate(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	var log testlog.Buffer
	a := d.open(t, driver.Options{Logger: log.Logger()})
	bind(t, a, session(t, a, time.Minute), "a")
	const ahead = "7e57ed00000040008000000000000025"
	execute(t, d.url, "INSERT INTO "+d.schema+".session VALUES ('"+ahead+"', 0, interval '1 minute', now() + interval '25 hours')")
	a.keeper.poke()
	await(t, "the log names it", func() bool { return log.Count(ahead) > 0 }) // once for each of two sweeps at once
	c, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var left int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM "+d.schema+".session").Scan(&left); err != nil || left != 1 || get(t, a, "a").Version == "" {
		t.Errorf("%d sessions are left, expected the other one: %v", left, err)
	}
}

// A schema that was restored in part is damaged, and the error has the statement that mends it.
func TestOpenNamesAMissingRowAndMendsIt(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	put(t, d.open(t, driver.Options{}), "k", "v")
	for _, damage := range []string{".format", ".change WHERE slot = 7"} {
		execute(t, d.url, "DELETE FROM "+d.schema+damage)
		s, err := open(t.Context(), Config{URL: d.url, Schema: d.schema})
		if err == nil {
			_ = s.Close()
		}
		_, mends, _ := strings.Cut(fmt.Sprint(err), "run ")
		if mends, _, _ = strings.Cut(mends, ": "); !errors.Is(err, fault.Corrupt) || !strings.HasPrefix(mends, "INSERT INTO ") {
			t.Fatalf("without %s: %v; expected that it is damaged, and what mends it", damage, err)
		}
		execute(t, d.url, mends)
		d.open(t, driver.Options{})
	}
}
