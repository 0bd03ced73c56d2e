package sqlregistry

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// What a server is set to, for all who log in, changes nothing of what our statements mean.
func TestSettingsOfTheServerDoNoHarm(t *testing.T) {
	t.Parallel()
	c := newDatabase(t)
	c.Params = map[string]string{"sql_select_limit": "1", "sql_safe_updates": "1", "autocommit": "0"}
	s := openStore(t, Config{MySQL: c})
	var puts []driver.Put
	for i := range 5 {
		puts = append(puts, driver.Put{Key: fmt.Sprint("k", i), Value: []byte("v")})
	}
	r, err := s.Apply(t.Context(), []driver.Txn{{Puts: puts}})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	old := r[0].Versions
	if snap, err := s.List(t.Context(), "k"); err != nil || len(snap.Entries) != len(puts) {
		t.Errorf("a list of %d entries, %v; expected %d", len(snap.Entries), err, len(puts))
	}
	var checks []driver.Check
	for i, p := range puts {
		checks = append(checks, driver.Check{Key: p.Key, Version: old[i]})
	}
	for _, want := range []error{nil, driver.ErrConflict} { // the second time under the old versions
		r, err := s.Apply(t.Context(), []driver.Txn{{Checks: checks, Puts: puts}})
		if err != nil || !errors.Is(r[0].Err, want) {
			t.Errorf("a compare-and-set of %d keys: %v, %+v; expected %v", len(puts), err, r, want)
		}
	}
}

// A server takes packets of some size only, which is asked for: what is larger is split, and a
// server that can't take a single value is refused.
func TestStatementsFitIntoThePacketsOfTheServer(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "mariadb")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqlConfig(u, false)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		root := c.Clone()
		db := sqlDB(t, root)
		if _, err := db.Exec(fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(1 << 20)
	if s, err := open(t.Context(), Config{MySQL: c}); !errors.Is(err, fault.Invalid) {
		t.Errorf("on a server with packets of 1 MiB: %v, %v; expected ErrInvalid", s, err)
	}
	limit(minPacket)
	s := openStore(t, Config{MySQL: c})
	txns := make([]driver.Txn, 8)
	for i := range txns {
		txns[i].Puts = []driver.Put{{Key: fmt.Sprint("k", i), Value: bytes.Repeat([]byte{'\''}, 1<<20)}}
	}
	r, err := s.Apply(t.Context(), txns)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r {
		if r[i].Err != nil {
			t.Errorf("value %d: %v", i, r[i].Err)
		}
	}
}
