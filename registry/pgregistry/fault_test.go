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
