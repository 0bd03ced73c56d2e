package pgregistry

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// What a role is set to changes nothing for us: connections that rest are not closed, and values
// are read as they were written. The environment sets for a connection what ALTER ROLE sets for all.
func TestSettingsOfTheRoleDoNoHarm(t *testing.T) {
	url := testserver.URL(t, "postgres")
	d := newStore(t, url)
	t.Setenv("PGOPTIONS", "-c idle_session_timeout=1000 -c bytea_output=escape")
	s := d.open(t, driver.Options{})
	value := "\x00\\x\xff'"
	x, err := s.OpenSession(t.Context(), 9*time.Second) // renewed every three
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "k\\\xff", Value: []byte(value), Session: x.ID()}}}})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	opened := x.Deadline()
	await(t, "the session is renewed twice", func() bool {
		if doubt, ok := x.(driver.Doubter); ok && doubt.Doubtful() {
			t.Fatal("the server has closed a connection that rested")
		}
		return x.Deadline().Sub(opened) > 5*time.Second
	})
	snap, err := s.List(t.Context(), "")
	if err != nil || len(snap.Entries) != 1 || string(snap.Entries[0].Value) != value || snap.Entries[0].Key != "k\\\xff" {
		t.Errorf("read %q, %v; expected what was written", snap.Entries, err)
	}
}

// Behind a proxy that pools transactions nothing can be set, and a user's transaction is on a
// connection of the user's.
func TestBytesAreReadWhateverTheirOutputIs(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	s := newStore(t, url).open(t, driver.Options{})
	value := "\x00\\x\xff'"
	r, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "k\\\xff", Value: []byte(value)}}}})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	c, err := pgx.ConnectConfig(t.Context(), cc)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "SET bytea_output = 'escape'"); err != nil {
		t.Fatal(err)
	}
	snap, err := s.list(t.Context(), c, "")
	if err != nil || len(snap.Entries) != 1 || string(snap.Entries[0].Value) != value || snap.Entries[0].Key != "k\\\xff" {
		t.Errorf("a list reads %q, %v; expected what was written", snap.Entries, err)
	}
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) // it has failed, or is over
	in, err := s.InTx(tx)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := in.Lock(t.Context(), "k\\\xff"); err != nil || len(e) != 1 || string(e[0].Value) != value || e[0].Version != r[0].Versions[0] {
		t.Errorf("in a transaction: %+v, %v; expected what was written", e, err)
	}
}

func TestAServerDeclaresNoMoreThanWeTake(t *testing.T) {
	t.Parallel()
	cc, err := connConfig(&Config{URL: "postgres://127.0.0.1:1/x"})
	if err != nil {
		t.Fatal(err)
	}
	f := cc.BuildFrontend(strings.NewReader("R\x00\x00\x00\x08\x00\x00\x00\x00D\x3f\xff\xff\xff"), io.Discard)
	if _, err := f.Receive(); err != nil {
		t.Fatalf("let in: %v", err)
	}
	_, err = f.Receive()
	if large := (*pgproto3.ExceededMaxBodyLenErr)(nil); !errors.As(err, &large) {
		t.Errorf("a row of 1 GiB: %v; expected that it is not waited for", err)
	}
}
