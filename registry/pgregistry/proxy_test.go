package pgregistry

import (
	"net/url"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// The whole contract holds behind a proxy that pools transactions, only that a crash is noticed
// by the TTL.
func TestConformanceBehindAProxyThatPoolsTransactions(t *testing.T) {
	u := testserver.URL(t, "pgbouncer")
	registrytest.Run(t, registrytest.Harness{
		Store: func(t testing.TB) registrytest.Store { return newStore(t, u) },
	})
}

func TestGroupsBehindAProxyThatPoolsTransactions(t *testing.T) {
	protocoltest.Run(t, newStore(t, testserver.URL(t, "pgbouncer")))
}

func TestPooledTransactionsAreNoticedAndToldOnce(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "pgbouncer"))
	var log testlog.Buffer
	s := d.open(t, driver.Options{Logger: log.Logger()})
	if !s.pooled {
		t.Fatal("the proxy was not noticed")
	}
	if _, err := s.Watch(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	x, err := s.OpenSession(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		put(t, s, "k", "v")
	}
	await(t, "the session is renewed", func() bool { return time.Until(x.Deadline()) > 900*time.Millisecond })
	if n := log.Count("level="); n != 1 {
		t.Errorf("%d lines were logged; expected one", n)
	}
	if n := log.Count("a proxy that pools transactions"); n != 1 {
		t.Errorf("the fallback was told %d times; expected once", n)
	}
}

func TestAServerAndPooledSessionsAreNotTakenForPooledTransactions(t *testing.T) {
	t.Parallel()
	sessions, err := url.Parse(testserver.URL(t, "pgbouncer"))
	if err != nil {
		t.Fatal(err)
	}
	sessions.Path = "/sessions"
	if s := newStore(t, testserver.URL(t, "postgres")).open(t, driver.Options{}); s.pooled {
		t.Error("a server was taken for a proxy")
	}
	for range 3 {
		if s := newStore(t, sessions.String()).open(t, driver.Options{}); s.pooled {
			t.Error("a proxy that pools sessions was taken for one that pools transactions")
		}
	}
}
