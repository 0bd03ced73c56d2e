package protocol_test

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// forgetful is a store that applies the next transactions, lets something else happen, and loses
// the answer.
type forgetful struct {
	of   *registry.Registry
	next func() // nil: it answers
}

func (f *forgetful) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	res, err := f.of.Apply(ctx, txns)
	if next := f.next; next != nil && err == nil {
		f.next = nil
		next()
		for i := range res {
			res[i] = driver.Result{Err: driver.ErrUnknown}
		}
	}
	return res, err //nolint:wrapcheck // the store's own
}

func (f *forgetful) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	return f.of.List(ctx, prefix) //nolint:wrapcheck // the store's own
}

func (f *forgetful) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	return f.of.Watch(ctx, prefix) //nolint:wrapcheck // the store's own
}

func (f *forgetful) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	return f.of.OpenSession(ctx, ttl) //nolint:wrapcheck // the store's own
}

func (f *forgetful) Close() error { return nil }

// granted is the grant of unit 0 as its owner finds it.
func (f *fixture) granted(m *protocoltest.Member) (protocol.Grant, bool) {
	u := f.unit(0)
	return u.Grant(m.ID, m.Incarnation)
}

// A seek whose answer is lost must not be done again once the owner has gone on from it: that would
// take back what was committed since.
func TestASeekThatWasNotAnsweredIsDoneOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		then    func(t *testing.T, f *fixture, a *protocoltest.Member)
		unknown bool
		last    string // the reason of the last owner
	}{
		{"its owner goes on", func(t *testing.T, f *fixture, a *protocoltest.Member) {
			grant, ok := f.granted(a)
			must(t, a.Commit(t.Context(), grant, 150))
			if !ok {
				t.Error("the owner has no grant")
			}
		}, false, "seek"},
		{"another owner goes on", func(t *testing.T, f *fixture, a *protocoltest.Member) {
			_, b := f.join("b", "b1")
			grant, ok := f.granted(a)
			must(t, a.Handoff(t.Context(), grant, 120, b, "go"))
			next, there := f.granted(b)
			must(t, b.Commit(t.Context(), next, 150))
			if !ok || !there {
				t.Error("an owner has no grant")
			}
		}, true, "go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			_, a := f.join("a", "a1")
			grant, err := a.Claim(t.Context(), 0, "")
			must(t, err)
			must(t, a.Commit(t.Context(), grant, 10))
			seeker := registry.New(&forgetful{of: f.h.Registry, next: func() { c.then(t, f, a) }})
			err = groupOf(t, seeker).Seek(t.Context(), 0, at(100), "seek")
			if c.unknown {
				wantErr(t, err, registry.ErrUnknown)
			} else {
				must(t, err)
			}
			u, err := f.g.Unit(t.Context(), 0)
			must(t, err)
			if next := nextOf(t, f.g, 0); u.Owner.Reason != c.last || c.last == "seek" && u.Owner.After != grant.Epoch || next != 150 {
				t.Errorf("owner %+v and next %d; expected that of %q and 150: it was done again", u.Owner, next, c.last)
			}
		})
	}
}
