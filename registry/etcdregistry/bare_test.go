package etcdregistry

import (
	"strconv"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// What the benchmark compares with does the same work at the server, fences included.
func TestTheBareRequestWritesUnderTheSameChecks(t *testing.T) {
	t.Parallel()
	s := opened(t, config(t, testserver.URL(t, "etcd")))
	own := func(value string) driver.Version {
		results, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "owner", Value: []byte(value)}}}})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		return results[0].Versions[0]
	}
	txns := make([]driver.Txn, 2*maxBranches+1) // of several requests
	version := own("me")
	for i := range txns {
		txns[i] = driver.Txn{
			Checks: []driver.Check{{Key: "owner", Version: version}},
			Puts:   []driver.Put{{Key: "checkpoints/" + strconv.Itoa(i), Value: []byte("bare")}},
			Quiet:  true,
		}
	}
	send, err := s.Bare(t.Context(), txns)
	if err != nil {
		t.Fatal(err)
	}
	sent := func() (newest int64, entries int) {
		if err := send(t.Context()); err != nil {
			t.Fatal(err)
		}
		snap, err := s.List(t.Context(), "checkpoints/")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range snap.Entries {
			newest = max(newest, revision(e.Version))
		}
		return newest, len(snap.Entries)
	}
	first, entries := sent()
	if entries != len(txns) {
		t.Fatalf("%d of %d were written", entries, len(txns))
	}
	second, _ := sent()
	if second <= first {
		t.Error("nothing was written the second time")
	}
	own("somebody else")
	if third, _ := sent(); third != second {
		t.Error("something was written though the check fails")
	}
}
