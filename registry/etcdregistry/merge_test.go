package etcdregistry

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// What plan promises: it takes txns from the first on, leaves none out, and in one wave no
// transaction depends on an earlier one; several batches only when all are quiet.
func TestAPlanKeepsWhatDependsOnEachOtherApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &store{root: "r/"}
		key := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 400).Draw(t, "key")) })
		txns := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) driver.Txn {
			x := driver.Txn{Quiet: rapid.IntRange(0, 9).Draw(t, "quiet") > 0}
			for _, k := range rapid.SliceOfN(key, 0, 2).Draw(t, "checks") {
				x.Checks = append(x.Checks, driver.Check{Key: k})
			}
			p := driver.Put{Key: key.Draw(t, "put"), Value: make([]byte, rapid.SampledFrom([]int{1, 1, 1, 600_000}).Draw(t, "size"))}
			if rapid.IntRange(0, 30).Draw(t, "session") == 0 {
				p.Session = "1"
			}
			x.Puts = []driver.Put{p}
			return x
		}), 1, 300).Draw(t, "txns")
		left := txns
		for len(left) > 0 {
			wave := s.plan(left)
			n := 0
			written := map[string]struct{}{}
			for _, batch := range wave {
				if len(batch) == 0 || len(batch) > maxBranches {
					t.Fatalf("a batch of %d", len(batch))
				}
				size := 0
				for i := range batch {
					x := &batch[i]
					if x.Puts[0].Key != left[n].Puts[0].Key {
						t.Fatalf("transaction %d is out of order", n)
					}
					if meets(x, written) {
						t.Fatalf("transaction %d depends on one of the same wave", n)
					}
					if len(wave) > 1 && !x.Quiet {
						t.Fatalf("transaction %d is not quiet and could overtake another batch", n)
					}
					if x.Puts[0].Session != "" && n+len(batch) > 1 {
						t.Fatalf("transaction %d is bound to a session and shares its request", n)
					}
					written[x.Puts[0].Key] = struct{}{}
					size += s.weight(x)
					n++
				}
				if size > maxBatchBytes && len(batch) > 1 {
					t.Fatalf("a batch of %d bytes", size)
				}
			}
			if n == 0 {
				t.Fatal("an empty wave")
			}
			left = left[n:]
		}
	})
}

func TestManyQuietTransactionsBecomeFewRequests(t *testing.T) {
	t.Parallel()
	s := &store{root: "r/"}
	txns := make([]driver.Txn, 3*maxBranches)
	for i := range txns {
		txns[i] = driver.Txn{Quiet: true, Checks: []driver.Check{{Key: "owner"}}, Puts: []driver.Put{{Key: fmt.Sprint(i)}}}
	}
	if wave := s.plan(txns); len(wave) != 3 {
		t.Errorf("%d transactions are sent as %d requests at the same time; expected 3", len(txns), len(wave))
	}
	s.alone.Store(true)
	if wave := s.plan(txns); len(wave) != 1 || len(wave[0]) != 1 {
		t.Errorf("%d requests, the first of %d transactions, to a server that takes no merged ones", len(wave), len(wave[0]))
	}
}

func TestVersionsThatAreNoneOfOursAreNeverHeld(t *testing.T) {
	t.Parallel()
	for v, want := range map[driver.Version]int64{"": 0, "17": 17, "017": -1, "+17": -1, "0": -1, "-3": -1, "x": -1, "99999999999999999999": -1} {
		if got := revision(v); got != want {
			t.Errorf("revision(%q) is %d; expected %d", v, got, want)
		}
	}
	if leaseID("zz") != -1 || leaseID("-5") != -1 || leaseID(sessionID(1234567)) != 1234567 || sessionID(0) != "" {
		t.Error("a session's ID is not that of its lease")
	}
}

// The others of a batch are applied though one is refused, at whatever place.
func TestACheckpointThatIsRefusedKeepsNoOtherBack(t *testing.T) {
	t.Parallel()
	s := opened(t, config(t, testserver.URL(t, "etcd")))
	owner, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "owner"}}}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 2*maxBranches + 10
	for _, refused := range []int{0, 7, maxBranches, n - 1} {
		txns := make([]driver.Txn, n)
		for i := range txns {
			txns[i] = driver.Txn{
				Checks: []driver.Check{{Key: "owner", Version: owner[0].Versions[0]}},
				Puts:   []driver.Put{{Key: fmt.Sprintf("checkpoints/%d/%d", refused, i)}},
				Quiet:  true,
			}
		}
		txns[refused].Checks[0].Version = "1" // that of an earlier owner
		results, err := s.Apply(t.Context(), txns)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := s.List(t.Context(), fmt.Sprintf("checkpoints/%d/", refused))
		if err != nil || len(snap.Entries) != n-1 {
			t.Errorf("%d of %d were written, %v", len(snap.Entries), n-1, err)
		}
		for i, r := range results {
			if want := i == refused; errors.Is(r.Err, fault.Conflict) != want || (r.Err != nil) != want {
				t.Errorf("checkpoint %d, the refused one is %d: %v", i, refused, r.Err)
			}
		}
	}
}
