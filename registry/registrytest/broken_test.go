package registrytest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// broken is a way to get the contract wrong, on top of a registry that gets it right. Each is
// caught by a named case of the suite.
type broken struct {
	name     string
	catch    string // the case that must fail
	wrap     func(driver.Registry) driver.Registry
	play     func(*memregistry.Handle, *registrytest.Process) // what a process can't do, if it is that
	patience time.Duration
}

// brokenVariable names the broken registry that this test process is there for.
const brokenVariable = "REGISTRYTEST_BROKEN"

// brokenStore opens processes of a broken registry.
type brokenStore struct {
	broken
	store *memregistry.Store
}

func (s brokenStore) Open(t testing.TB, o driver.Options) *registrytest.Process {
	return s.open(t, o, 0)
}

func (s brokenStore) open(t testing.TB, o driver.Options, latency time.Duration) *registrytest.Process {
	if s.name == sharesNamespaces {
		o.Namespace = ""
	}
	h, err := s.store.OpenOptions(o)
	if err != nil {
		t.Fatal(err)
	}
	h.SetLatency(latency)
	p := &registrytest.Process{Registry: h.Registry, Kill: h.Kill, Freeze: h.Freeze, Thaw: h.Thaw}
	if s.wrap != nil {
		p.Registry = registry.New(s.wrap(h.Registry))
	}
	if s.play != nil {
		s.play(h, p)
	}
	return p
}

func (b broken) harness() registrytest.Harness {
	return registrytest.Harness{
		Store: func(testing.TB) registrytest.Store { return brokenStore{b, memregistry.NewStore()} },
		Far: func(t testing.TB, s registrytest.Store, delay time.Duration) *registrytest.Process {
			return s.(brokenStore).open(t, driver.Options{}, delay)
		},
		CrashNoticed: time.Second,
		TTL:          200 * time.Millisecond,
		Patience:     b.patience,
	}
}

// TestBrokenRegistries runs each case on the registries that it is there for, each in a process of its own, and wants
// a failure.
func TestBrokenRegistries(t *testing.T) {
	if name := os.Getenv(brokenVariable); name != "" {
		for _, b := range brokenRegistries {
			if b.name == name {
				b.patience = 500 * time.Millisecond // what never happens is not waited for
				registrytest.Run(t, b.harness())
			}
		}
		return
	}
	t.Parallel()
	for _, b := range brokenRegistries {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			escaped := strings.ReplaceAll(b.catch, " ", "_")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenRegistries$/^"+regexp.QuoteMeta(escaped)+"$", "-test.timeout=30s")
			cmd.Env = append(os.Environ(), brokenVariable+"="+b.name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("%q does not notice a registry that %s:\n%s", b.catch, b.name, out)
			case !errors.As(err, &exit):
				t.Fatalf("%v\n%s", err, out)
			case !strings.Contains(string(out), "--- FAIL: TestBrokenRegistries/"+escaped):
				t.Errorf("the failure is not one of %q:\n%s", b.catch, out)
			}
		})
	}
}

// A suite that refuses everything would notice every broken registry.
func TestAWrappedRegistryThatIsNotBrokenPasses(t *testing.T) {
	t.Parallel()
	sound := broken{wrap: func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, sessions: func(x driver.Session) driver.Session { return wrappedSession{Session: x} }}
	}}
	registrytest.Run(t, sound.harness())
}

// wrapped replaces some methods of a registry.
type wrapped struct {
	driver.Registry
	list     func(context.Context, string) (driver.Snapshot, error)
	apply    func(context.Context, []driver.Txn) ([]driver.Result, error)
	watch    func(context.Context, string) (<-chan struct{}, error)
	sessions func(driver.Session) driver.Session // that are opened
	close    func() error
}

func (w wrapped) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	if w.list == nil {
		return w.Registry.List(ctx, prefix)
	}
	return w.list(ctx, prefix)
}

func (w wrapped) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	if w.apply == nil {
		return w.Registry.Apply(ctx, txns)
	}
	return w.apply(ctx, txns)
}

func (w wrapped) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if w.watch == nil {
		return w.Registry.Watch(ctx, prefix)
	}
	return w.watch(ctx, prefix)
}

func (w wrapped) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	x, err := w.Registry.OpenSession(ctx, ttl)
	if err != nil || w.sessions == nil {
		return x, err
	}
	return w.sessions(x), nil
}

func (w wrapped) Close() error {
	if w.close == nil {
		return w.Registry.Close()
	}
	return w.close()
}

// wrappedSession replaces some methods of a session.
type wrappedSession struct {
	driver.Session
	deadline func() time.Time
	done     <-chan struct{}
	close    func(context.Context) error
}

func (x wrappedSession) Deadline() time.Time {
	if x.deadline == nil {
		return x.Session.Deadline()
	}
	return x.deadline()
}

func (x wrappedSession) Done() <-chan struct{} {
	if x.done == nil {
		return x.Session.Done()
	}
	return x.done
}

func (x wrappedSession) Close(ctx context.Context) error {
	if x.close == nil {
		return x.Session.Close(ctx)
	}
	return x.close(ctx)
}
