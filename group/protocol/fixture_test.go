package protocol_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// fixture is a group on a store of its own, seen by one process.
type fixture struct {
	t     *testing.T
	store *memregistry.Store
	h     *memregistry.Handle
	g     *protocol.Group
}

func newFixture(t *testing.T, units int) *fixture {
	t.Helper()
	f := &fixture{t: t, store: memregistry.NewStore()}
	f.h = f.store.Open()
	t.Cleanup(func() { f.h.Close() })
	f.g = groupOf(t, f.h.Registry)
	_, err := f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: units, Assignor: "sticky"})
	must(t, err)
	return f
}

func groupOf(t *testing.T, r *registry.Registry) *protocol.Group {
	t.Helper()
	g, err := protocol.NewGroup(r, "billing")
	must(t, err)
	return g
}

// ttl is of the sessions: longer than any stall of the machine.
const ttl = time.Minute

// join makes a member through a handle of its own, in the place of whoever has its ID.
func (f *fixture) join(id, incarnation string) (*memregistry.Handle, *protocoltest.Member) {
	f.t.Helper()
	h := f.store.Open()
	f.t.Cleanup(func() { h.Close() })
	s, err := h.OpenSession(f.t.Context(), ttl)
	must(f.t, err)
	m, err := protocoltest.Join(f.t.Context(), groupOf(f.t, h.Registry), s, protocol.Member{ID: id, Incarnation: incarnation})
	must(f.t, err)
	return h, m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, expected %v", err, kind)
	}
}

func at(next int64) protocol.Checkpoint { return protocoltest.At(next) }

func nextOf(t *testing.T, g *protocol.Group, unit int) int64 {
	t.Helper()
	u, err := g.Unit(t.Context(), unit)
	must(t, err)
	if u.Checkpoint == nil {
		return -1
	}
	return u.Checkpoint.Positions[0].Next
}
