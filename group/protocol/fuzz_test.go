package protocol_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// The documents of a group are in a registry that others write to. A group is read as a whole, or
// refused with an error of a kind; what is read is stored again as it is, and makes no more units
// than are allowed.
func FuzzGroup(f *testing.F) {
	f.Add("groups/g/owners/00000001", []byte(`{"member":"m","incarnation":"i","epoch":3}`), []byte(`{"format":1,"topic":"t","units":4}`))
	f.Add("checkpoints/g/00000002", protocol.Checkpoint{Epoch: 2, Positions: []protocol.Position{{Next: 4, Done: []protocol.Range{{6, 8}}}}}.Encode(), []byte(`{"format":1,"topic":"t","units":4,"first":1,"initial":2}`))
	f.Add("checkpoints/g/00000000", protocol.Checkpoint{Epoch: 2, Positions: []protocol.Position{{Next: 4, Failing: []protocol.Failing{{Offset: 6, Attempts: 2, Since: 1, Due: 9, Pause: 3}}}}}.Encode(), []byte(`{"format":1,"units":1}`))
	f.Add("checkpoints/g/00000000", protocol.Checkpoint{Epoch: 2, Positions: []protocol.Position{{Next: 4}, {Partition: 1, Next: 9, Done: []protocol.Range{{11, 12}}}, {Partition: 2}}}.Encode(), []byte(`{"format":1,"units":1}`))
	f.Add("checkpoints/g/00000000", []byte(`{"positions":[{"partition":1,"next":4},{"next":3},{"partition":1,"next":5}]}`), []byte(`{"format":1,"life":"l","units":1}`))
	f.Add("checkpoints/g/00000000", protocol.Checkpoint{Positions: []protocol.Position{{Next: 4}}, Deliveries: &protocol.Deliveries{
		At: 9, HeldBack: &protocol.HeldBack{Since: 3, Why: "<no>", Next: 8}, Eased: 10.5, Rate: 2.25, Running: 3, Endpoint: &protocol.EndpointPart{Rate: 9, RateHere: 4.5, Concurrency: 3, ConcurrencyHere: 1},
	}}.Encode(), []byte(`{"format":1,"life":"l","units":1}`))
	f.Add("groups/g/members/m", []byte(`{"id":"m"}`), []byte(`{"units":-1}`))
	f.Add("groups/g/assignment", []byte(`{"targets":["m"]}`), []byte(`{"units":9223372036854775807}`))
	f.Add("checkpoints/g/00000000", []byte(`{"positions":[{"next":-4,"done":[[9,3]]}]}`), []byte(`{"format":1,"units":1}`))
	f.Add("groups/g/owners/99999999999999999999", []byte("null"), []byte(`{"format":2,"units":1}`))
	f.Fuzz(func(t *testing.T, key string, value, meta []byte) {
		reg := memregistry.New()
		defer reg.Close()
		puts := []registry.Put{{Key: "groups/g/meta", Value: meta}}
		if key != puts[0].Key {
			puts = append(puts, registry.Put{Key: key, Value: value})
		}
		if _, err := reg.Txn(t.Context(), registry.Txn{Puts: puts}); err != nil {
			return // no key or value of a registry
		}
		if bytes.Contains(meta, []byte("0000")) {
			return // hundreds of thousands of units: allowed, and slow
		}
		g, err := protocol.NewGroup(reg, "g")
		must(t, err)
		st, err := g.Load(t.Context(), true)
		if err != nil {
			if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Invalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			if !strings.Contains(err.Error(), "groups/g/") && !strings.Contains(err.Error(), "checkpoints/g/") {
				t.Fatalf("an error that names no key: %v", err)
			}
			return
		}
		if st.Meta == nil {
			return
		}
		if len(st.Units) != st.Meta.Units || st.Meta.Units > protocol.MaxUnits {
			t.Fatalf("%d units of %+v", len(st.Units), st.Meta)
		}
		for n, u := range st.Units {
			if u.Number != n || u.Owner.Epoch < 0 {
				t.Fatalf("unit %d is %+v", n, u)
			}
			if u.Checkpoint == nil {
				continue
			}
			if len(u.Checkpoint.Positions) > protocol.MaxInputs {
				t.Fatalf("unit %d has %d positions", n, len(u.Checkpoint.Positions))
			}
			for i, p := range u.Checkpoint.Positions {
				if at := u.Checkpoint.Position(p.Storage, p.Partition); at != &u.Checkpoint.Positions[i] {
					t.Fatalf("unit %d is at %+v and %+v", n, *at, p)
				}
				if p.Next < 0 || p.Storage < 0 || p.Partition < 0 {
					t.Fatalf("unit %d is at %+v", n, p)
				}
			}
			again := memregistry.New()
			_, err := again.Txn(t.Context(), registry.Txn{Puts: []registry.Put{puts[0], {Key: key, Value: u.Checkpoint.Encode()}}})
			must(t, err)
			other, err := protocol.NewGroup(again, "g")
			must(t, err)
			if st, err := other.Load(t.Context(), true); err != nil || !bytes.Equal(st.Units[n].Checkpoint.Encode(), u.Checkpoint.Encode()) {
				t.Fatalf("the checkpoint %s comes back otherwise: %v", u.Checkpoint.Encode(), err)
			}
			_ = again.Close()
		}
	})
}
