package pgregistry

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// TestAnIdleGroupCostsTheServerLittle counts the transactions, each of which is a statement, of
// ten members with the session TTL that groups have by default.
func TestAnIdleGroupCostsTheServerLittle(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "postgres")
	d := schemaStore{server.URL(), "idle"}
	const members, ttl, limit = 10, 5 * time.Second, 30
	stores := make([]*store, members)
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() {
			stores[i] = d.open(t, driver.Options{})
			if _, err := stores[i].Watch(t.Context(), "groups/g/"); err != nil {
				t.Error(err)
			}
			if _, err := stores[i].OpenSession(t.Context(), ttl); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	await(t, "all know each other", func() bool {
		for _, s := range stores {
			if peers, _ := s.keeper.view(); len(peers) != members {
				return false
			}
		}
		return true
	})
	c, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	count := func() (n int64) {
		if err := c.QueryRow(t.Context(), `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	sleep := func(seconds float64) {
		if _, err := c.Exec(t.Context(), `SELECT pg_sleep($1)`, seconds); err != nil {
			t.Fatal(err)
		}
	}
	// Server processes tell what they did up to ten seconds later.
	sleep(11)
	before, began := count(), time.Now()
	sleep(6)
	rate := float64(count()-before) / time.Since(began).Seconds()
	t.Logf("%.1f statements a second", rate)
	if rate > limit {
		t.Errorf("ten idle members cost %.1f statements a second; expected at most %d", rate, limit)
	}
}

// A checkpoint wakes nobody: notifications serialise the commits of the whole server.
func TestCheckpointsSendNoNotification(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	s := newStore(t, url).open(t, driver.Options{})
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "LISTEN "+s.q.channel); err != nil {
		t.Fatal(err)
	}
	txns := owned(t, s, 50)
	heardSoFar := func() (n int) {
		put(t, s, "last", "x") // what comes before its notification was sent before it
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			note, err := c.WaitForNotification(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			n++
			if _, keys, _ := heard(note.Payload); len(keys) == 1 && keys[0] == "last" {
				return n
			}
		}
	}
	heardSoFar()
	for range 3 {
		res, err := s.Apply(t.Context(), txns)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res {
			if res[i].Err != nil {
				t.Fatal(res[i].Err)
			}
			txns[i].Checks[1].Version = res[i].Versions[0]
		}
		// The first checkpoint of a unit takes the long way, as does one that is refused.
		first := driver.Txn{Quiet: true, Checks: []driver.Check{txns[0].Checks[0], {Key: "none yet"}}, Puts: []driver.Put{{Key: "none yet"}}}
		late := driver.Txn{Quiet: true, Checks: []driver.Check{{Key: txns[1].Checks[0].Key, Version: res[1].Versions[0]}}, Puts: []driver.Put{{Key: "refused"}}}
		if _, err := s.Apply(t.Context(), []driver.Txn{first, late}); err != nil {
			t.Fatal(err)
		}
	}
	if n := heardSoFar(); n != 1 {
		t.Errorf("%d notifications for checkpoints", n-1)
	}
	many := make([]driver.Txn, 100)
	for i := range many {
		many[i] = driver.Txn{Puts: []driver.Put{{Key: "many", Value: []byte{byte(i)}}}}
	}
	if _, err := s.Apply(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if n := heardSoFar(); n != 2 {
		t.Errorf("%d notifications for one call; expected one", n-1)
	}
}
