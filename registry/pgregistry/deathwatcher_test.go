package pgregistry

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// A reading that comes late brings nobody back, but what it says of a session of ours holds.
func TestAnOlderReadingOfTheSessionsIsNotPublishedOverANewerOne(t *testing.T) {
	t.Parallel()
	s := newStore(t, testserver.URL(t, "postgres")).open(t, driver.Options{})
	s.gate = new(hook.Gate)
	s.gate.Shut() // no reading but those of this test
	x := session(t, s, time.Hour)
	older, before := s.keeper.begin()
	newer, _ := s.keeper.begin()
	s.keeper.learn(newer, reading{{Process: 2}}, nil)
	s.keeper.learn(older, reading{{Process: 1}, {Process: 2}}, before)
	if peers, _ := s.keeper.view(); len(peers) != 1 || peers[0].Process != 2 {
		t.Errorf("the peers are %+v; expected those of the newer reading", peers)
	}
	await(t, "the session that has gone from the store ends", func() bool { return ended(x) })
}

// A wait that was broken off may have left the lock with the one who waited. The process whose
// lock it is must be able to take it again.
func TestADeathWatcherLetsGoOfWhatABrokenWaitLeft(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	v := &deathWatcher{s: newStore(t, url).open(t, driver.Options{}), armed: time.Second}
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
		t.Error("the death watcher still has the lock")
	}
}

// A request to cancel goes over a connection of its own, and names the first by a key that only the server gives.
func TestAConnectionThatIsNotMadeYetIsNotCancelledByItsKey(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var came atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			all = append(all, c)
			if came.Add(1) > 1 {
				continue
			}
			b := pgproto3.NewBackend(c, c)
			if _, err := b.ReceiveStartupMessage(); err != nil {
				t.Error(err)
			}
			b.Send(&pgproto3.AuthenticationOk{}) // and never its key
			if err := b.Flush(); err != nil {
				t.Error(err)
			}
			cancel()
		}
		for _, c := range all {
			_ = c.Close()
		}
	}()
	cc, err := connConfig(&Config{URL: "postgres://rf@" + l.Addr().String() + "/rf?sslmode=disable"})
	if err != nil {
		t.Fatal(err)
	}
	v := &deathWatcher{s: &store{conn: cc}}
	if err := v.connect(ctx); err == nil {
		t.Error("connected to a server that never says so")
		v.drop()
	}
	_ = l.Close()
	<-done
	if n := came.Load(); n != 1 {
		t.Errorf("%d connections; want the one that was cancelled", n)
	}
}
