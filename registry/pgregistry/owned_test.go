package pgregistry

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
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
		value := registry.Encode(protocol.Checkpoint{Positions: []protocol.Position{{Next: int64(i)}}, Epoch: 1, Member: "member"})
		txns[i] = driver.Txn{
			Quiet:  true,
			Checks: []driver.Check{{Key: owner, Version: res[0].Versions[0]}, {Key: checkpoint, Version: res[0].Versions[1]}},
			Puts:   []driver.Put{{Key: checkpoint, Value: value}},
		}
	}
	return txns
}
