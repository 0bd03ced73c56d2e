// Package protocoltest has what tests of groups need: a member that the test moves by hand, and the case
// that every registry backend passes with its own store.
package protocoltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// Run goes through the life of a consumer group once, by two processes on one store.
func Run(t *testing.T, store registrytest.Store) {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err, kind error) {
		t.Helper()
		if !errors.Is(err, kind) {
			t.Fatalf("error %v, expected %v", err, kind)
		}
	}
	open := func() (*registry.Registry, *protocol.Group, registry.Session) {
		t.Helper()
		p := store.Open(t, driver.Options{})
		t.Cleanup(func() { _ = p.Close() })
		g, err := protocol.NewGroup(p.Registry, "g")
		ok(err)
		x, err := p.OpenSession(ctx, 10*time.Second)
		ok(err)
		return p.Registry, g, x
	}
	a, ga, xa := open()
	_, gb, xb := open()
	_, err := ga.EnsureMeta(ctx, protocol.Meta{Topic: "t", Units: 4})
	ok(err)
	ma, err := Join(ctx, ga, xa, protocol.Member{ID: "a", Incarnation: "a1"})
	ok(err)
	mb, err := Join(ctx, gb, xb, protocol.Member{ID: "b", Incarnation: "b1", Static: true})
	ok(err)
	var grants []protocol.Grant
	for unit := range 4 {
		grant, err := ma.Claim(ctx, unit, "start")
		ok(err)
		grants = append(grants, grant)
	}
	_, err = mb.Claim(ctx, 1, "its owner lives")
	is(err, registry.ErrConflict)
	ok(ma.Handoff(ctx, grants[0], 10, mb, "handoff from a"))
	res, err := a.Apply(ctx, []registry.Txn{ga.CommitTxn(grants[0], At(11), ""), ga.CommitTxn(grants[1], At(21), "")})
	ok(err)
	is(res[0].Err, registry.ErrConflict)
	ok(res[1].Err)
	ok(xa.Close(ctx))
	grant, err := mb.Claim(ctx, 1, "a left")
	ok(err)
	is(ma.Commit(ctx, grants[1], 22), registry.ErrFenced)
	ok(mb.Commit(ctx, grant, 23))
	u, err := gb.Unit(ctx, 1)
	ok(err)
	if u.Owner.Epoch <= grants[1].Epoch || u.Owner.After != grants[1].Epoch || u.Checkpoint.Positions[0].Next != 23 {
		t.Fatalf("unit 1: %+v, %+v", u.Owner, u.Checkpoint)
	}
	ok(xb.Close(ctx))
	ok(gb.Delete(ctx))
}
