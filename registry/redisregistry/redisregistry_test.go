package redisregistry

import (
	"context"
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
	// The library sleeps for a second before it looks at a Cluster again, also when it is closed meanwhile.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// server is the configuration for the real server, in a namespace of the test's own.
func server(t testing.TB) Config {
	t.Helper()
	u, err := url.Parse(testserver.URL(t, "redis"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parseURL(u, false)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Namespace = "test-" + newID()
	return cfg
}

func mustOpen(t testing.TB, cfg Config) *store {
	t.Helper()
	return mustOpenIn(t.Context(), t, cfg)
}

func mustOpenIn(ctx context.Context, t testing.TB, cfg Config) *store {
	t.Helper()
	var s *store
	eventually(t, "open", func() (err error) { // a machine that stalls is slower than a short time-out
		s, err = open(ctx, cfg)
		return err
	})
	t.Cleanup(func() { s.shut(false) })
	return s
}

type namespaces struct{ cfg Config }

func (n namespaces) Open(t testing.TB, o driver.Options) *registrytest.Process {
	cfg := n.cfg
	if o.Namespace != "" {
		cfg.Namespace += "/" + o.Namespace
	}
	gate := new(hook.Gate)
	s := mustOpenIn(gate.With(t.Context()), t, cfg)
	return &registrytest.Process{
		Registry: registry.New(s),
		Kill:     func() { s.shut(false) },
		Freeze:   gate.Shut,
		Thaw:     gate.Open,
	}
}

func TestConformance(t *testing.T) {
	registrytest.Run(t, registrytest.Harness{
		Store: func(t testing.TB) registrytest.Store { return namespaces{server(t)} },
		Far: func(t testing.TB, s registrytest.Store, delay time.Duration) *registrytest.Process {
			cfg, p := through(t)
			cfg.Namespace = s.(namespaces).cfg.Namespace
			far := mustOpen(t, cfg)
			p.Down(testserver.Fault{Delay: delay})
			return &registrytest.Process{Registry: registry.New(far)}
		},
		CrashNoticed: time.Second,
	})
}

func TestGroups(t *testing.T) { protocoltest.Run(t, namespaces{server(t)}) }

func TestARecordedRequestWritesUnderTheSameChecks(t *testing.T) {
	t.Parallel()
	registrytest.Resent(t, registry.New(mustOpen(t, server(t))))
}
