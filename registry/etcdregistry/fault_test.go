package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// late is far more than anything here takes.
const late = 30 * time.Second

func put(key string) []driver.Txn {
	return []driver.Txn{{Puts: []driver.Put{{Key: key, Value: []byte("v")}}}}
}

// eventually repeats f until it succeeds.
func eventually(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		err := f(try)
		stop()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: not within %s: %v", what, late, err)
		}
		time.Sleep(20 * time.Millisecond) // between two tries at a server that is down
	}
}

func apply(s *store, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		res, err := s.Apply(ctx, put(key))
		if err != nil {
			return err
		}
		return res[0].Err
	}
}

func has(t *testing.T, s *store, key string) bool {
	t.Helper()
	var snap driver.Snapshot
	eventually(t, "list", func(ctx context.Context) (err error) {
		snap, err = s.List(ctx, key)
		return err
	})
	return len(snap.Entries) > 0
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case _, open := <-ch:
		if !open {
			t.Fatalf("%s: the watch ended", what)
		}
	case <-time.After(late):
		t.Fatalf("%s: no signal within %s", what, late)
	}
}

func TestAKilledServerIsAPause(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "etcd")
	cfg := config(t, server.URL())
	a, b := opened(t, cfg), opened(t, cfg)
	changes, err := b.Watch(t.Context(), "w/")
	if err != nil {
		t.Fatal(err)
	}
	session, err := a.OpenSession(t.Context(), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "w/bound", Session: session.ID()}}}}); err != nil {
		t.Fatal(err)
	}
	await(t, "a put", changes)

	server.Kill()
	if _, err := a.List(t.Context(), ""); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a list of a dead server: %v; expected unavailable", err)
	}
	// Nothing can have been sent any more once the loss of the connection was noticed.
	if _, err := a.Apply(t.Context(), put("w/never")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a write to a dead server: %v; expected unavailable", err)
	}
	if _, err := open(t.Context(), cfg); !errors.Is(err, fault.Unavailable) {
		t.Errorf("opening a dead server: %v; expected unavailable", err)
	}
	server.Restart()

	eventually(t, "a write after the restart", apply(a, "w/after"))
	await(t, "the write after the restart", changes)
	if has(t, b, "w/never") {
		t.Error("a write that was called not done is there")
	}
	if !has(t, b, "w/bound") {
		t.Error("the entry of a session did not survive the restart")
	}
	select {
	case <-session.Done():
		t.Error("the session ended with the server's restart, within its TTL")
	default:
	}
}

func TestAFrozenServerIsAPauseAndItsWritesAreUnknown(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "etcd")
	cfg := config(t, server.URL())
	cfg.RequestTimeout = 1500 * time.Millisecond
	a := opened(t, cfg)
	eventually(t, "a write", apply(a, "before"))
	eventually(t, "the request is sent before its time is over", func(context.Context) error {
		server.Freeze()
		defer server.Thaw()
		res, err := a.Apply(t.Context(), put("during"))
		if errors.Is(err, fault.Unavailable) {
			return err
		}
		if err != nil || !errors.Is(res[0].Err, fault.Unknown) {
			t.Errorf("a write to a frozen server: %v, %v; expected unknown", res, err)
		}
		return nil
	})
	eventually(t, "a write after the thaw", apply(a, "after"))
}

func TestALostReplyIsUnknownAndTheWriteIsThereOnce(t *testing.T) {
	t.Parallel()
	server := testserver.URL(t, "etcd")
	proxy := testserver.NewProxy(t, config(t, server).Endpoints[0])
	cfg := config(t, server)
	direct := opened(t, cfg)
	cfg.Endpoints = []string{proxy.Addr()}
	cfg.RequestTimeout = 1500 * time.Millisecond
	a := opened(t, cfg)
	txn := driver.Txn{Checks: []driver.Check{{Key: "once"}}, Puts: []driver.Put{{Key: "once", Value: []byte("v")}}}
	eventually(t, "the request arrives before its time is over", func(context.Context) error {
		proxy.Heal()
		eventually(t, "a write", apply(a, "k"))
		proxy.Down(testserver.Fault{Drop: true})
		res, err := a.Apply(t.Context(), []driver.Txn{txn})
		if !has(t, direct, "once") {
			return errors.New("the request did not get there")
		}
		if err != nil || !errors.Is(res[0].Err, fault.Unknown) {
			t.Fatalf("%v, %v; expected unknown", res, err)
		}
		return nil
	})
	proxy.Heal()
	eventually(t, "the write again", func(ctx context.Context) error {
		res, err := a.Apply(ctx, []driver.Txn{txn})
		if err == nil && !errors.Is(res[0].Err, fault.Conflict) {
			err = fmt.Errorf("%v; expected a conflict with the first try", res[0].Err)
		}
		return err
	})
}

// The connection stays half open for ever, but a new one works: gRPC's own pings would take 13 s
// to find out, longer than most leases.
func TestASessionSurvivesAConnectionThatSwallowsEverything(t *testing.T) {
	t.Parallel()
	server := testserver.URL(t, "etcd")
	cfg := config(t, server)
	proxy := testserver.NewProxy(t, cfg.Endpoints[0])
	direct := opened(t, cfg)
	cfg.Endpoints = []string{proxy.Addr()}
	a := opened(t, cfg)
	changes, err := a.Watch(t.Context(), "w/")
	if err != nil {
		t.Fatal(err)
	}
	session, err := a.OpenSession(t.Context(), 6*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Swallow()
	eventually(t, "a list through a new connection", func(ctx context.Context) error {
		_, err := a.List(ctx, "")
		return err
	})
	eventually(t, "a write by another", apply(direct, "w/1"))
	await(t, "the write by another", changes)
	renewed := session.Deadline()
	eventually(t, "a renewal", func(context.Context) error {
		if !session.Deadline().After(renewed) {
			return errors.New("the deadline is the old one")
		}
		return nil
	})
	select {
	case <-session.Done():
		t.Error("the session ended")
	default:
	}
}

func TestCompactedHistoryIsSignalled(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "etcd")
	cfg := config(t, server.URL())
	proxy := testserver.NewProxy(t, cfg.Endpoints[0])
	direct := opened(t, cfg)
	cfg.Endpoints = []string{proxy.Addr()}
	a := opened(t, cfg)
	changes, err := a.Watch(t.Context(), "w/")
	if err != nil {
		t.Fatal(err)
	}
	proxy.Refuse()
	eventually(t, "a write", apply(direct, "w/1"))
	eventually(t, "a write", apply(direct, "other"))
	snap, err := direct.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.client.Compact(t.Context(), snap.Revision); err != nil {
		t.Fatal(err)
	}
	proxy.Heal()
	await(t, "what was written and compacted during the outage", changes)
	eventually(t, "a write", apply(direct, "w/2"))
	await(t, "a write after it", changes)
}

func TestAServerWithoutRoomForMergedTransactionsTakesThemOneByOne(t *testing.T) {
	t.Parallel()
	a := opened(t, config(t, testserver.URL(t, "etcd")))
	txns := make([]driver.Txn, 150)
	for i := range txns {
		txns[i] = driver.Txn{Quiet: true, Puts: []driver.Put{{Key: fmt.Sprint(i), Value: []byte("v")}}}
	}
	p := a.send(t.Context(), txns) // more than any plan puts into one
	if p.failed != nil {
		t.Fatal(p.failed)
	}
	for i, r := range p.results {
		if r.Err != nil || len(r.Versions) != 1 {
			t.Fatalf("transaction %d: %+v", i, r)
		}
	}
	if !a.alone.Load() {
		t.Error("the next call tries to merge again")
	}
}

func TestAServerThatIsNotThereIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := open(t.Context(), Config{Endpoints: []string{"127.0.0.1:1"}, RequestTimeout: late})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "127.0.0.1:1: connect: connection refused") {
		t.Errorf("%v; expected unavailable, with address and reason", err)
	}
	if took := time.Since(began); took > late/2 {
		t.Errorf("it took %s, which is the time of the request", took)
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t, testserver.URL(t, "etcd"))
	a := opened(t, cfg)
	if _, err := a.client.Put(t.Context(), base(cfg.Prefix)+"/format", "2"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), cfg); !errors.Is(err, fault.Newer) {
		t.Errorf("%v; expected that a newer version wrote it", err)
	}
}
