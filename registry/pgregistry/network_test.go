package pgregistry

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// through opens the store of d behind a network that can be broken, with a password that nobody
// must see.
func (d schemaStore) through(t testing.TB, o driver.Options) (*store, *testserver.Proxy) {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), passwordOf(t, d.url))
	p := testserver.NewProxy(t, d.url)
	return schemaStore{p.URL(u.String()), d.schema}.open(t, o), p
}

// secret is the password of the roles that tests make.
const secret = "hunter2"

// passwordOf is the one of a URL, or any for a server that demands none.
func passwordOf(t testing.TB, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	password, ok := u.User.Password()
	if !ok {
		return secret
	}
	return password
}

func write(key, value string) driver.Txn {
	return driver.Txn{Puts: []driver.Put{{Key: key, Value: []byte(value)}}}
}

func worksAgain(t *testing.T, s *store) {
	t.Helper()
	await(t, "writes go on", func() bool { return reply(t, s, 2*time.Second, write("works", "x")) == nil })
}

// A batch of checkpoints is another statement than that of other transactions.
func TestALostReplyToCheckpointsAppliesThemOnce(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	direct := d.open(t, driver.Options{})
	s, p := d.through(t, driver.Options{})
	txns := owned(t, direct, 20)
	put(t, s, "warm", "x")
	p.Down(testserver.Fault{Drop: true})
	lost(t, s, txns[0])
	key := txns[0].Puts[0].Key
	await(t, "it was applied", func() bool { return get(t, direct, key).Version != txns[0].Checks[1].Version })
	once := get(t, direct, key).Version
	p.Heal()
	worksAgain(t, s)
	results, err := s.Apply(t.Context(), txns)
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; !errors.Is(r.Err, driver.ErrConflict) || r.Failed != 1 || get(t, direct, key).Version != once {
		t.Errorf("the repeated one: %+v", r)
	}
	for i, r := range results[1:] {
		if r.Err != nil {
			t.Errorf("checkpoint %d: %v", i+1, r.Err)
		}
	}
}

// listens is since when the store hears of changes; zero: it does not.
func listens(s *store) time.Time {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	if !s.link.up {
		return time.Time{}
	}
	return s.link.since
}

// Connections that ended while nobody used them are no reason to fail: nothing was sent on them.
func TestASessionIsOpenedWhateverBecameOfIdleConnections(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	s, p := d.through(t, driver.Options{})
	for range 5 {
		var several []*pgxpool.Conn
		for range 3 {
			c, err := s.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			several = append(several, c)
		}
		for _, c := range several {
			c.Release()
		}
		before := listens(s)
		p.Reset()
		session(t, s, time.Minute)
		await(t, "it listens again", func() bool { return listens(s).After(before) }) // what is reset while it connects has failed
	}
}
