package sqlregistry

import (
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
)

func ended(t *testing.T, x registry.Session) {
	t.Helper()
	select {
	case <-x.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the session goes on")
	}
}

// A host that goes without a word leaves its transaction open, and so does a process that is stopped.
func TestATransactionThatNobodyGoesOnWithIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	cfg := newDatabase(t)
	r, err := Open(t.Context(), Config{MySQL: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	put(t, r, "k", "before")
	cfg.Logger = quiet{} // the client would tell of the connection's end
	cfg.InterpolateParams = true
	stopped := sql.OpenDB(&mysqlConnector{cfg, greeting, setupCalls()})
	defer stopped.Close()
	tx, err := stopped.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT version FROM ringfence_entries FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	put(t, r, "k", "after")
	if get(t, r, "k") != "after" {
		t.Error("what was written is not there")
	}
	if err := tx.Commit(); err == nil {
		t.Error("the transaction outlived a change of what it had locked")
	}
}

// The server stops in the middle of an answer. To end the answer the client reads on, without a context.
func TestAnAnswerThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	u := mysqlURL(newDatabase(t))
	p := testserver.NewProxy(t, u)
	parsed, err := url.Parse(p.URL(u))
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqlConfig(parsed, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connectMySQL(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.QueryContext(t.Context(), "SELECT REPEAT('x', 1000) FROM seq_1_to_100000", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	begun := time.Now()
	if err := errors.Join(rows.Close(), conn.Close()); err == nil {
		t.Error("the answer ended")
	}
	if took := time.Since(begun); took > 10*endings {
		t.Errorf("it took %s; expected about %s", took, endings)
	}
}
