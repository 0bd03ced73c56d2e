package backends_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/fileregistry"
)

// late is far more than anything here takes on a machine that stalls.
const late = time.Minute

// onServers runs a test on every server that holds a registry.
func onServers(t *testing.T, test func(t *testing.T, name string)) {
	t.Parallel()
	for _, name := range testserver.Registries(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

func openRegistry(ctx context.Context, raw string, o driver.Options) (*registry.Registry, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return fileregistry.Open(ctx, fileregistry.Config{Dir: u.Path, Options: o})
	}
	for _, b := range backends.All() {
		if b.Scheme == u.Scheme {
			return b.OpenRegistry(ctx, u, o)
		}
	}
	return nil, fmt.Errorf("no registry for scheme %q", u.Scheme)
}

// kept is a registry of a test.
type kept struct {
	*registry.Registry
	t *testing.T
}

func opened(t *testing.T, raw string, o driver.Options) kept {
	t.Helper()
	var r *registry.Registry
	eventually(t, "opening", late, func() (ok bool) {
		var err error
		r, err = openRegistry(t.Context(), raw, o)
		return err == nil
	})
	t.Cleanup(func() { _ = r.Close() })
	return kept{r, t}
}

// through opens a namespace of its own twice: behind a network that can be broken, and past it.
func through(t *testing.T, name string) (far, straight kept, net *testserver.Proxy) {
	t.Helper()
	raw, o := testserver.URL(t, name), driver.Options{Namespace: fmt.Sprintf("outage-%016x", rand.Uint64())}
	net = testserver.NewProxy(t, raw)
	return opened(t, net.URL(raw), o), opened(t, raw, o), net
}

// try writes a key within some seconds.
func (r kept) try(key string, checks ...registry.Check) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Second)
	defer cancel()
	_, err := r.Txn(ctx, registry.Txn{Checks: checks, Puts: []registry.Put{{Key: key, Value: []byte("v")}}})
	return err
}

func (r kept) works() {
	r.t.Helper()
	eventually(r.t, "a write", late, func() bool { return r.try("works") == nil })
}

// version is that of a key; "" when it is absent.
func (r kept) version(key string) (v registry.Version) {
	r.t.Helper()
	eventually(r.t, "a reading", late, func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Second)
		defer cancel()
		e, err := r.Lookup(ctx, key)
		v = e.Version
		return err == nil
	})
	return v
}

// bind opens a session and binds a key to it: anew when the machine stalled for the whole TTL.
func (r kept) bind(key string, ttl time.Duration) (x registry.Session) {
	r.t.Helper()
	eventually(r.t, "a session with an entry", late, func() (ok bool) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Second)
		defer cancel()
		var err error
		if x, err = r.OpenSession(ctx, ttl); err == nil {
			_, err = r.Txn(ctx, registry.Txn{Puts: []registry.Put{{Key: key, Session: x.ID()}}})
		}
		return err == nil
	})
	return x
}

func (r kept) watch(prefix string) <-chan struct{} {
	r.t.Helper()
	ch, err := r.Watch(r.t.Context(), prefix)
	if err != nil {
		r.t.Fatal(err)
	}
	return ch
}

func signalled(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(late):
		t.Fatalf("no signal of %s", what)
	}
}

func ended(x registry.Session) bool {
	select {
	case <-x.Done():
		return true
	default:
		return false
	}
}

// unreachable says whether an error is that of a store that does not answer.
func unreachable(err error) bool {
	return errors.Is(err, registry.ErrUnavailable) || errors.Is(err, registry.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}
