package pgregistry

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// soon is far more than anything here needs.
const soon = 20 * time.Second

func session(t testing.TB, s *store, ttl time.Duration) driver.Session {
	t.Helper()
	x, err := s.OpenSession(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func bind(t testing.TB, s *store, x driver.Session, key string) {
	t.Helper()
	if res := apply(t, s, driver.Txn{Puts: []driver.Put{{Key: key, Session: x.ID()}}}); res.Err != nil {
		t.Fatal(res.Err)
	}
}

// bound opens a session and binds a key to it: anew when the machine stalled for the whole TTL.
func bound(t testing.TB, s *store, ttl time.Duration, key string) (x driver.Session) {
	t.Helper()
	await(t, "a key is bound within the TTL of its session", func() bool {
		x = session(t, s, ttl)
		res := apply(t, s, driver.Txn{Puts: []driver.Put{{Key: key, Session: x.ID()}}})
		if res.Err != nil && !errors.Is(res.Err, driver.ErrFenced) {
			t.Fatal(res.Err)
		}
		return res.Err == nil
	})
	return x
}

func ended(x driver.Session) bool {
	select {
	case <-x.Done():
		return true
	default:
		return false
	}
}

func execute(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-ups use it too
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		t.Fatal(err)
	}
}

// reply sends a transaction that must not wait for ever.
func reply(t testing.TB, s *store, d time.Duration, txn driver.Txn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	res, err := s.Apply(ctx, []driver.Txn{txn})
	if err != nil {
		return err
	}
	return res[0].Err
}

// lost sends a transaction into a network that loses it or its reply: again as long as the time was
// over before it was sent.
func lost(t testing.TB, s *store, txn driver.Txn) {
	t.Helper()
	await(t, "the outcome of a request is unknown", func() bool {
		err := reply(t, s, 300*time.Millisecond, txn)
		if !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a request that was lost, or its reply: %v", err)
		}
		return errors.Is(err, driver.ErrUnknown)
	})
}

func TestALostReplyIsAnUnknownOutcomeAndRepeatingItAppliesItOnce(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	d := newStore(t, url)
	direct := d.open(t, driver.Options{})
	p := testserver.NewProxy(t, url)
	s := schemaStore{p.URL(url), d.schema}.open(t, driver.Options{})
	v := put(t, s, "k", "0")
	txn := driver.Txn{Checks: []driver.Check{{Key: "k", Version: v}}, Puts: []driver.Put{{Key: "k", Value: []byte("1")}}}

	p.Down(testserver.Fault{Drop: true})
	lost(t, s, txn)
	await(t, "it was applied", func() bool { return string(get(t, direct, "k").Value) == "1" })
	p.Heal()
	await(t, "the store is reached again", func() bool {
		err := reply(t, s, time.Second, txn)
		if err == nil {
			t.Fatal("it was applied twice")
		}
		return errors.Is(err, driver.ErrConflict)
	})
	p.Refuse()
	if err := reply(t, s, soon, txn); !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("a store that is away: %v", err)
	}
	if _, err := s.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("a list from a store that is away: %v", err)
	}
}

func TestAHalfOpenConnectionEndsTheSessionOnBothSidesAndIsSurvived(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	d := newStore(t, url)
	other := d.open(t, driver.Options{})
	p := testserver.NewProxy(t, url)
	s := schemaStore{p.URL(url), d.schema}.open(t, driver.Options{})
	const ttl = 5 * time.Second
	x := session(t, s, ttl)
	bind(t, s, x, "member")
	mine, err := s.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	cut := time.Now()
	await(t, "the holder thinks that its session is over", func() bool { return ended(x) })
	if took := time.Since(cut); took > 3*ttl {
		t.Errorf("the holder knew after %s; the TTL is %s", took, ttl)
	}
	await(t, "the others see it end", func() bool { return get(t, other, "member").Version == "" })
	for len(mine) > 0 {
		<-mine
	}
	put(t, other, "news", "while it was away")
	p.Heal()
	select {
	case <-mine:
	case <-time.After(20 * time.Second):
		t.Fatal("no signal after the connection came back")
	}
	await(t, "a new session opens", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.OpenSession(ctx, ttl)
		return err == nil
	})
}

// Losing the connection that holds the lock is not death, as long as others live.
func TestAProcessThatLosesItsListenerKeepsItsSession(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	d := newStore(t, url)
	a, b := d.open(t, driver.Options{}), d.open(t, driver.Options{})
	x, y := session(t, a, 20*time.Second), session(t, b, 20*time.Second)
	bind(t, a, x, "member")
	await(t, "b waits for a", func() bool {
		peers, _ := b.keeper.view()
		return slices.Contains(peers.Successors(b.holder, 1), a.holder) && waiting(t, url, a.holder)
	})
	ch, err := a.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for len(ch) > 0 {
			<-ch
		}
		for told, tries := false, 0; !told; tries++ { // now and then it is b that has the lock, for a moment
			execute(t, url, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = $1`, a.holder)
			select {
			case <-ch:
				told = true
			case <-time.After(4 * time.Second):
				if tries == 5 {
					t.Fatal("no signal after the listener connected again")
				}
			}
		}
		await(t, "b waits for a again", func() bool { return waiting(t, url, a.holder) })
	}
	if ended(x) || ended(y) || get(t, b, "member").Version == "" {
		t.Error("a session ended")
	}
}

// waiting says whether somebody waits for the lock of a process.
func waiting(t testing.TB, url string, holder int64) bool {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var n int
	err = c.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND (classid::bigint << 32 | objid::bigint) = $1`, holder).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestAServerThatStopsIsAPause(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "postgres")
	d := schemaStore{server.URL(), "paused"}
	a, b := d.open(t, driver.Options{}), d.open(t, driver.Options{})
	long, short := bound(t, a, time.Minute, "member/long"), bound(t, b, time.Second, "member/short")
	ch, err := b.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	v := put(t, a, "k", "before")
	back := func(what string) {
		t.Helper()
		for len(ch) > 0 {
			<-ch
		}
		await(t, "writes go on after "+what, func() bool {
			return reply(t, a, 2*time.Second, driver.Txn{Puts: []driver.Put{{Key: "k", Value: []byte(what)}}}) == nil
		})
		await(t, "watches go on after "+what, func() bool { return len(ch) > 0 })
		if got := get(t, b, "k"); string(got.Value) != what || got.Version == v {
			t.Fatalf("after %s: %+v", what, got)
		}
	}

	server.Kill()
	if err := reply(t, a, soon, driver.Txn{Puts: []driver.Put{{Key: "k"}}}); !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("a write to a server that is gone: %v", err)
	}
	if _, err := b.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a list from a server that is gone: %v", err)
	}
	await(t, "a session of a short TTL ends without the store", func() bool { return ended(short) })
	server.Restart()
	back("a kill")
	await(t, "it has ended in the store too", func() bool { return get(t, a, "member/short").Version == "" })

	server.Stop()
	server.Restart()
	back("a restart")

	short = session(t, b, time.Second)
	server.Freeze()
	await(t, "a session of a short TTL ends while the server hangs", func() bool { return ended(short) })
	server.Thaw()
	back("a hang")
	if err := reply(t, b, 5*time.Second, driver.Txn{Puts: []driver.Put{{Key: "late", Session: short.ID()}}}); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("a put with a session that ended meanwhile: %v", err)
	}
	if ended(long) || get(t, b, "member/long").Version == "" {
		t.Error("a session that outlives the outages by its TTL ended with them")
	}
}
