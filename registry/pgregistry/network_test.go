package pgregistry

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testlog"

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

func TestALostRequestIsNeverAppliedLater(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	direct := d.open(t, driver.Options{})
	s, p := d.through(t, driver.Options{})
	put(t, s, "warm", "x")
	p.Up(testserver.Fault{Drop: true})
	lost(t, s, write("k", "lost"))
	p.Heal()
	worksAgain(t, s)
	if got := get(t, direct, "k"); got.Version != "" {
		t.Errorf("it was applied after all: %s", got.Value)
	}
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

func TestASlowNetworkIsNoReasonToEndASession(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	other := d.open(t, driver.Options{})
	s, p := d.through(t, driver.Options{})
	const ttl, delay = 9 * time.Second, 100 * time.Millisecond
	x := session(t, s, ttl)
	bind(t, s, x, "member")
	ch, err := s.Watch(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	p.Up(testserver.Fault{Delay: delay})
	p.Down(testserver.Fault{Delay: delay})
	began, opened := time.Now(), x.Deadline()
	put(t, s, "k", "v")
	if took := time.Since(began); took < 2*delay {
		t.Fatalf("the network is not slow, a write took %s", took)
	}
	for len(ch) > 0 {
		<-ch
	}
	put(t, other, "news", "1")
	await(t, "the news arrive", func() bool { return len(ch) > 0 })
	await(t, "it is renewed", func() bool { return x.Deadline().After(opened) })
	if ended(x) || get(t, other, "member").Version == "" {
		t.Error("the session ended")
	}
}

// All connections at once are what a firewall that was restarted breaks. To the others it may look
// like a death; then the process knows it too.
func TestAResetOfAllConnectionsIsSurvivedAndLogsNoPassword(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	other := d.open(t, driver.Options{})
	theirs := session(t, other, time.Minute)
	var log testlog.Buffer
	s, p := d.through(t, driver.Options{Logger: log.Logger()})
	ch, err := s.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	x := session(t, s, time.Minute)
	bind(t, s, x, "member")
	for range 3 {
		for len(ch) > 0 {
			<-ch
		}
		p.Reset()
		worksAgain(t, s)
		await(t, "the watch is signalled after the connection came back", func() bool { return len(ch) > 0 })
	}
	p.Refuse()
	await(t, "the outage is noticed", func() bool { return errors.Is(listed(t, s), driver.ErrUnavailable) })
	if _, err := open(t.Context(), Config{URL: s.conn.ConnString(), Schema: d.schema}); err == nil || strings.Contains(err.Error(), passwordOf(t, d.url)) {
		t.Errorf("opening a store that refuses: %v", err)
	}
	p.Heal()
	worksAgain(t, s)
	await(t, "both sides agree about the session", func() bool { return ended(x) == (get(t, other, "member").Version == "") })
	if ended(theirs) {
		t.Error("the session of another process ended")
	}
	y := session(t, s, time.Minute)
	bind(t, s, y, "member")
	if log.Count(passwordOf(t, d.url)) > 0 {
		t.Error("the password was logged")
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

// TestAServerThatIsAwayForLong: longer than sessions live; with RINGFENCE_SOAK for a minute.
func TestAServerThatIsAwayForLong(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	away := 2 * ttl
	if os.Getenv("RINGFENCE_SOAK") != "" {
		away = time.Minute
	}
	server := testserver.Private(t, "postgres")
	d := schemaStore{server.URL(), "away"}
	a, b := d.open(t, driver.Options{}), d.open(t, driver.Options{})
	x := bound(t, a, ttl, "member")
	owner := put(t, a, "owner", "a")
	ch, err := b.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	back := time.After(away)
	server.Stop()
	await(t, "the session ends without the store", func() bool { return ended(x) })
	if err := listed(t, b); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a list: %v", err)
	}
	<-back
	for len(ch) > 0 {
		<-ch
	}
	server.Restart()
	worksAgain(t, a)
	await(t, "watches go on", func() bool { return len(ch) > 0 })
	await(t, "what was bound is gone", func() bool { return get(t, b, "member").Version == "" })
	if got := get(t, b, "owner"); got.Version != owner {
		t.Errorf("the owner is %+v; expected the one that was acknowledged", got)
	}
	if err := reply(t, a, soon, driver.Txn{Puts: []driver.Put{{Key: "late", Session: x.ID()}}}); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("a put with the session that ended: %v", err)
	}
	bound(t, a, ttl, "member")
}
