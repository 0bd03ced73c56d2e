package group_test

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/memtest"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// Who looks at a group has no room for units that are nothing but a number in its document: any stranger
// can write that.
func TestUnitsThatAreOnlyANumberTakeNoMemory(t *testing.T) {
	h := memregistry.NewStore().Open()
	t.Cleanup(func() { h.Close() })
	g, err := protocol.NewGroup(h.Registry, "g")
	must(t, err)
	const last = protocol.MaxUnits - 1
	docs := []registry.Put{
		{Key: g.MetaKey(), Value: registry.Encode(protocol.Meta{Format: 1, Life: "x.1", Topic: "t", Units: protocol.MaxUnits, First: 1})},
		{Key: g.OwnerKey(last), Value: registry.Encode(protocol.Owner{Member: "a", Epoch: 7, Reason: "first owner"})},
		{Key: g.OwnerKey(5), Value: []byte("{")},
		{Key: g.CheckpointKey(last - 1), Value: registry.Encode(protocol.Checkpoint{Epoch: 3, Positions: []protocol.Position{}})},
		{Key: g.CheckpointKey(last + 1), Value: []byte("{}")},
	}
	_, err = h.Txn(t.Context(), registry.Txn{Puts: docs})
	must(t, err)
	var d *group.Description
	memtest.AtMost(t, 1<<20, "a group of 2^20 units", func() {
		began := time.Now()
		if d, err = group.Describe(t.Context(), h.Registry, "g"); err != nil {
			t.Fatal(err)
		}
		t.Logf("described in %s", time.Since(began))
	})
	if d.Meta.Units != protocol.MaxUnits || len(d.Units) != 3 {
		t.Errorf("%d units, of which %d are known; expected 3", d.Meta.Units, len(d.Units))
	}
	for n, phase := range map[int]api.Phase{0: api.Finished, 1: api.Unowned, 5: api.Unowned, last - 1: api.Unowned, last: api.Orphaned, last + 1: api.Unowned} {
		if u := d.Unit(n); u.Number != n || u.Phase != phase {
			t.Errorf("unit %d is described as %d, %s; expected %s", n, u.Number, u.Phase, phase)
		}
	}
	if u := d.Unit(last - 1); u.Checkpoint == nil || u.Checkpoint.Epoch != 3 {
		t.Errorf("a checkpoint is lost: %+v", u)
	}
	if d.Unit(5).OwnerDamage == nil || d.Unit(last).Owner.Epoch != 7 {
		t.Errorf("units are %+v and %+v", d.Unit(5), d.Unit(last))
	}
}
