package group_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// An entry that no member wrote, and that no session ends, has no share in the units, keeps none of its
// own, and is in nobody's way.
func TestAMemberWithoutASessionHasNoShare(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"whole": `{"id":"ghost","incarnation":"g1","static":true}`, "damaged": `{"id":`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				_, err := c.admin.EnsureMeta(t.Context(), protocol.Meta{Topic: "t", Units: units, Assignor: "sticky"})
				if err == nil {
					_, err = c.admin.Registry().Txn(t.Context(), registry.Txn{Puts: []registry.Put{
						{Key: c.admin.MemberKey("ghost"), Value: []byte(value)},
						{Key: c.admin.StaticKey("ghost"), Value: []byte(`{"id":"ghost","restart_ms":1000}`)},
						{Key: c.admin.OwnerKey(3), Value: registry.Encode(protocol.Owner{Member: "ghost", Incarnation: "g1", Epoch: 7})},
					}})
				}
				if err != nil {
					t.Fatal(err)
				}
				owned := func() (n map[string]int) {
					time.Sleep(time.Minute)
					st, err := c.admin.Load(t.Context(), false)
					if err != nil {
						t.Fatal(err)
					}
					n = map[string]int{}
					for i := range st.Units {
						if o := st.Units[i].Owner; st.Alive(o) {
							n[o.Member]++
						}
					}
					return n
				}
				c.start("a")
				if n := owned(); n["a"] != units {
					t.Errorf("the members own %v; expected that a has all %d", n, units)
				}
				c.start("ghost") // one of that name takes its place
				if n := owned(); n["a"] != units/2 || n["ghost"] != units/2 {
					t.Errorf("the members own %v; expected a half each", n)
				}
			})
		})
	}
}
