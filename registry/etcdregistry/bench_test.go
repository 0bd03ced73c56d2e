package etcdregistry

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// document has the size of a usual checkpoint.
var document = []byte(`{"positions":[{"storage":0,"partition":17,"next":123456789}],"epoch":7,"member":"worker-1","updated":1700000000000}`)

// BenchmarkFencedCheckpoints stores the checkpoints of many units in one call, each under the
// check of its owner entry; b.N counts checkpoints.
func BenchmarkFencedCheckpoints(b *testing.B) {
	server := testserver.URL(b, "etcd")
	for _, c := range []struct{ units, callers int }{{256, 1}, {256, 4}, {1024, 4}, {1, 64}} {
		b.Run(fmt.Sprintf("units=%d/callers=%d", c.units, c.callers), func(b *testing.B) {
			s := opened(b, config(b, server))
			calls := make([][]driver.Txn, c.callers)
			for i := range calls {
				calls[i] = fenced(b, s, i*c.units, c.units)
			}
			b.ResetTimer()
			var done atomic.Int64
			var wg sync.WaitGroup
			for _, txns := range calls {
				wg.Go(func() {
					for done.Add(int64(c.units)) <= int64(b.N+c.units) {
						results, err := s.Apply(b.Context(), txns)
						if err != nil || results[0].Err != nil {
							b.Errorf("%v, %v", err, results)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checkpoints/s")
		})
	}
}

// BenchmarkBare is the same transactions through etcd's client alone, one a request.
func BenchmarkBare(b *testing.B) {
	s := opened(b, config(b, testserver.URL(b, "etcd")))
	const callers = 64
	txns := fenced(b, s, 0, callers)
	b.ResetTimer()
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			t := &txns[i]
			for done.Add(1) <= int64(b.N) {
				_, err := s.client.Txn(b.Context()).
					If(clientv3.Compare(clientv3.ModRevision(s.root+t.Checks[0].Key), "=", revision(t.Checks[0].Version))).
					Then(clientv3.OpPut(s.root+t.Puts[0].Key, string(t.Puts[0].Value))).Commit()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checkpoints/s")
}

// fenced makes owner entries and returns the checkpoints under their fences.
func fenced(b *testing.B, s *store, from, n int) []driver.Txn {
	b.Helper()
	owners := make([]driver.Txn, n)
	for i := range owners {
		owners[i].Puts = []driver.Put{{Key: "owners/" + strconv.Itoa(from+i), Value: document}}
	}
	results, err := s.Apply(b.Context(), owners)
	if err != nil {
		b.Fatal(err)
	}
	txns := make([]driver.Txn, n)
	for i := range txns {
		txns[i] = driver.Txn{
			Checks: []driver.Check{{Key: owners[i].Puts[0].Key, Version: results[i].Versions[0]}},
			Puts:   []driver.Put{{Key: "checkpoints/" + strconv.Itoa(from+i), Value: document}},
			Quiet:  true,
		}
	}
	return txns
}
