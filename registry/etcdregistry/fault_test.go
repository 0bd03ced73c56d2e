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
