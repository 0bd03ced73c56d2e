package pgregistry

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// owned fills a store with the owner and checkpoint entries of units, and returns the
// transactions that write their checkpoints.
func owned(t testing.TB, s *store, units int) []driver.Txn {
	t.Helper()
	txns := make([]driver.Txn, units)
	for i := range txns {
		owner, checkpoint := fmt.Sprintf("groups/g/owners/%08d", i), fmt.Sprintf("checkpoints/g/%08d", i)
		res, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: owner}, {Key: checkpoint}}}})
		if err != nil || res[0].Err != nil {
			t.Fatal(err, res)
		}
		value := registry.Encode(registry.Checkpoint{Positions: []registry.Position{{Next: int64(i)}}, Epoch: 1, Member: "member"})
		txns[i] = driver.Txn{
			Quiet:  true,
			Checks: []driver.Check{{Key: owner, Version: res[0].Versions[0]}, {Key: checkpoint, Version: res[0].Versions[1]}},
			Puts:   []driver.Put{{Key: checkpoint, Value: value}},
		}
	}
	return txns
}

// BenchmarkCheckpoints writes the checkpoints of many units at once, each under a check of the
// owner's and of its own version, as a group does.
func BenchmarkCheckpoints(b *testing.B) {
	for _, units := range []int{1, 32, 256, 1000} {
		b.Run(fmt.Sprint(units), func(b *testing.B) {
			s := newStore(b, testserver.URL(b, "postgres")).open(b, driver.Options{})
			txns := owned(b, s, units)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				res, err := s.Apply(b.Context(), txns)
				if err != nil {
					b.Fatal(err)
				}
				for i, r := range res {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
					txns[i].Checks[1].Version = r.Versions[0]
				}
			}
			b.ReportMetric(float64(b.N*units)/b.Elapsed().Seconds(), "checkpoints/s")
		})
	}
}
