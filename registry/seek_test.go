package registry_test

import (
	"context"
	"testing"
	"time"

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

// A seek whose answer is lost must not be done again once the owner has gone on from it: that would
// take back what was committed since.
func TestASeekThatWasNotAnsweredIsDoneOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		then    func(t *testing.T, f *fixture, g *registry.Group)
		unknown bool
		last    string // the reason of the last owner
	}{
		{"its owner goes on", func(t *testing.T, f *fixture, g *registry.Group) {
			u, err := f.g.Unit(t.Context(), 0)
			must(t, err)
			grant, ok := u.Grant("a", "a1")
			if !ok {
				t.Fatal("the owner has no grant")
			}
			must(t, g.Checkpoint(t.Context(), grant, at(150)))
		}, false, "seek"},
		{"another owner goes on", func(t *testing.T, f *fixture, _ *registry.Group) {
			_, b, _ := f.join("b", "b1")
			u, err := f.g.Unit(t.Context(), 0)
			must(t, err)
			grant, ok := u.Grant("a", "a1")
			if !ok {
				t.Fatal("the owner has no grant")
			}
			must(t, f.g.Handoff(t.Context(), grant, at(120), "b", "b1", "go"))
			u, err = f.g.Unit(t.Context(), 0)
			must(t, err)
			grant, ok = u.Grant("b", "b1")
			if !ok {
				t.Fatal("the new owner has no grant")
			}
			must(t, b.Checkpoint(t.Context(), grant, at(150)))
		}, true, "go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			_, a, _ := f.join("a", "a1")
			grant, err := a.Claim(t.Context(), 0, "a", "a1", 0, "", nil)
			must(t, err)
			must(t, a.Checkpoint(t.Context(), grant, at(10)))
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
