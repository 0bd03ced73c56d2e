package etcdregistry

import (
	"context"
	"crypto/rand"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestMain(m *testing.M) {
	testserver.Waiting()
	goleak.VerifyTestMain(m)
}

// minTTL is the shortest lease of a server with its defaults.
const minTTL = 2 * time.Second

// config is of a prefix that nobody else uses, on a server.
func config(t testing.TB, raw string) Config {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parse(u, false)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Prefix = "test-" + rand.Text()
	return cfg
}

// suiteStore is a prefix of its own on the shared server.
type suiteStore struct{ cfg Config }

func (x suiteStore) Open(t testing.TB, o driver.Options) *registrytest.Process {
	t.Helper()
	cfg := x.cfg
	cfg.Options = o
	gate := new(hook.Gate)
	s, err := open(gate.With(context.Background()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Process{
		Registry: registry.New(s),
		Kill:     s.abandon,
		Freeze:   gate.Shut,
		Thaw:     gate.Open,
	}
}

// abandon leaves the sessions as the death of the process would.
func (s *store) abandon() {
	s.own.Abandon()
	_ = s.Close()
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testserver.URL(t, "etcd")
	registrytest.Run(t, registrytest.Harness{
		TTL: minTTL,
		Far: func(t testing.TB, s registrytest.Store, delay time.Duration) *registrytest.Process {
			cfg := s.(suiteStore).cfg
			p := testserver.NewProxy(t, cfg.Endpoints[0])
			cfg.Endpoints = []string{p.Addr()}
			far := opened(t, cfg)
			p.Down(testserver.Fault{Delay: delay})
			return &registrytest.Process{Registry: registry.New(far)}
		},
		Store: func(t testing.TB) registrytest.Store { return suiteStore{config(t, server)} },
	})
}

func TestGroups(t *testing.T) { protocoltest.Run(t, suiteStore{config(t, testserver.URL(t, "etcd"))}) }

// opened is a handle, which the test closes.
func opened(t testing.TB, cfg Config) *store {
	t.Helper()
	var s *store
	eventually(t, "open", func(context.Context) (err error) { // a machine that stalls is slower than a short time-out
		s, err = open(context.Background(), cfg)
		return err
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestARecordedRequestWritesUnderTheSameChecks(t *testing.T) {
	t.Parallel()
	registrytest.Resent(t, registry.New(opened(t, config(t, testserver.URL(t, "etcd")))))
}
