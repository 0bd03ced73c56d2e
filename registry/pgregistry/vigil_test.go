package pgregistry

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// A wait that was broken off may have left the lock with the one who waited. The process whose
// lock it is must be able to take it again.
func TestAVigilLetsGoOfWhatABrokenWaitLeft(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	v := &vigil{s: newStore(t, url).open(t, driver.Options{}), armed: time.Second}
	defer v.drop()
	if err := v.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	const holder = 7_311_094_552
	if _, err := v.conn.Exec(t.Context(), `SELECT pg_advisory_lock_shared($1)`, int64(holder)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.wait(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var free bool
	if err := c.QueryRow(t.Context(), `SELECT pg_try_advisory_lock($1)`, int64(holder)).Scan(&free); err != nil {
		t.Fatal(err)
	}
	if !free {
		t.Error("the vigil still has the lock")
	}
}
