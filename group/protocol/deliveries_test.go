package protocol_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

func TestCheckpointKeepsItsDeliveries(t *testing.T) {
	t.Parallel()
	all := &protocol.Deliveries{
		At: 9, HeldBack: &protocol.HeldBack{Since: 3, Why: "<no>", Next: 8}, Eased: 10.5, Rate: 2.25, Running: 3,
		Endpoint: &protocol.EndpointPart{Rate: 9, RateHere: 4.5, Concurrency: 3, ConcurrencyHere: 1},
	}
	for _, c := range []struct {
		stored string
		want   *protocol.Deliveries
	}{
		{"", nil},
		{`,"deliveries":null`, nil},
		{`,"deliveries":{"at":9,"held_back":{"since":3,"why":"<no>","next":8},"eased":10.5,"rate":2.25,"running":3,"endpoint":{"rate":9,"rate_here":4.5,"concurrency":3,"concurrency_here":1}}`, all},
		{`,"deliveries":{"at":9,"what_comes_later":{}}`, &protocol.Deliveries{At: 9}},
	} {
		reg := memregistry.New()
		_, err := reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{
			{Key: "groups/g/meta", Value: []byte(`{"format":1,"life":"l","topic":"t","units":1}`)},
			{Key: "checkpoints/g/00000000", Value: []byte(`{"positions":[{"next":4}],"epoch":2,"member":"m","updated":7` + c.stored + `}`)},
		}})
		must(t, err)
		g, err := protocol.NewGroup(reg, "g")
		must(t, err)
		u, err := g.Unit(t.Context(), 0)
		must(t, err)
		if !reflect.DeepEqual(u.Checkpoint.Deliveries, c.want) || u.Checkpoint.Positions[0].Next != 4 {
			t.Errorf("%s is read as %+v; expected %+v", c.stored, u.Checkpoint.Deliveries, c.want)
		}
		must(t, reg.Close())
	}
}

// A checkpoint is stored, whatever was to be told with it.
func TestWhatCannotBeToldKeepsNoCheckpointBack(t *testing.T) {
	t.Parallel()
	for _, bad := range []protocol.Deliveries{{Rate: math.Inf(1)}, {HeldBack: &protocol.HeldBack{Why: strings.Repeat("x", registry.MaxValueBytes)}}} {
		f := newFixture(t, 1)
		_, m := f.join("a", "a1")
		grant, err := m.Claim(t.Context(), 0, "first")
		must(t, err)
		done := []protocol.Range{{9, 11}} // is of use, and stays
		must(t, f.g.Commit(t.Context(), grant, protocol.Checkpoint{Positions: []protocol.Position{{Next: 7, Done: done}}, Member: "a", Deliveries: &bad}, ""))
		u, err := f.g.Unit(t.Context(), 0)
		if err != nil || u.Checkpoint == nil || u.Checkpoint.Positions[0].Next != 7 || len(u.Checkpoint.Positions[0].Done) != 1 || u.Checkpoint.Deliveries != nil {
			t.Errorf("%+v was stored as %+v, %v", bad, u.Checkpoint, err)
		}
	}
}

func TestWhatIsToldTwiceIsTheSame(t *testing.T) {
	t.Parallel()
	one := protocol.Deliveries{At: 1, HeldBack: &protocol.HeldBack{Since: 3}, Rate: 2, Endpoint: &protocol.EndpointPart{Rate: 9}}
	same := one
	same.At, same.HeldBack, same.Endpoint = 2, &protocol.HeldBack{Since: 3}, &protocol.EndpointPart{Rate: 9}
	if !one.Same(&same) || !(*protocol.Deliveries)(nil).Same(&protocol.Deliveries{At: 5}) || !(*protocol.Deliveries)(nil).Same(nil) {
		t.Error("what is told at another time is something else")
	}
	for i, change := range []func(*protocol.Deliveries){
		func(d *protocol.Deliveries) { d.HeldBack = nil },
		func(d *protocol.Deliveries) { d.HeldBack = &protocol.HeldBack{Since: 4} },
		func(d *protocol.Deliveries) { d.Rate = 3 },
		func(d *protocol.Deliveries) { d.Eased = 3 },
		func(d *protocol.Deliveries) { d.Running = 1 },
		func(d *protocol.Deliveries) { d.Endpoint = nil },
		func(d *protocol.Deliveries) { d.Endpoint = &protocol.EndpointPart{Rate: 8} },
	} {
		other := one
		if change(&other); one.Same(&other) || other.Same(&one) {
			t.Errorf("change %d makes no difference", i)
		}
	}
}
