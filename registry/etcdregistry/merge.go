package etcdregistry

import "github.com/ringfence/ringfence/registry/driver"

// Independent transactions are merged: they become the branches of one transaction of etcd's,
// each with its own condition, so that one costs about what a put costs, and not a request and a
// turn of the consensus. etcd evaluates the conditions of all branches before it executes any, and
// refuses two writes of one key, so a transaction that looks at or writes what an earlier one
// writes begins a new batch.
//
// etcd allows 128 operations in a transaction (--max-txn-ops) and subtracts the number of the
// branches from what each of them may hold.
const (
	maxBranches  = 104
	maxBranchOps = 24
	// etcd takes requests of 1.5 MiB (--max-request-bytes).
	maxBatchBytes = 1 << 20
)

// merge is how many of txns can go as one request; at least 1.
func (s *store) merge(txns []driver.Txn) int {
	if s.alone.Load() || len(txns) == 1 {
		return 1
	}
	written := make(map[string]struct{}, min(len(txns), maxBranches))
	size := 0
	for n := range txns {
		t := &txns[n]
		size += s.weight(t)
		if n == maxBranches || size > maxBatchBytes || !mergeable(t) || meets(t, written) {
			return max(n, 1)
		}
		for i := range t.Puts {
			written[t.Puts[i].Key] = struct{}{}
		}
		for _, k := range t.Deletes {
			written[k] = struct{}{}
		}
	}
	return len(txns)
}

// mergeable: a session that has ended makes etcd refuse the whole request, so puts into one go
// alone; they are rare.
func mergeable(t *driver.Txn) bool {
	if max(len(t.Checks), len(t.Puts)+len(t.Deletes)) > maxBranchOps {
		return false
	}
	for i := range t.Puts {
		if t.Puts[i].Session != "" {
			return false
		}
	}
	return true
}

// meets says whether t depends on a key that was written.
func meets(t *driver.Txn, written map[string]struct{}) bool {
	for i := range t.Checks {
		if _, ok := written[t.Checks[i].Key]; ok {
			return true
		}
	}
	for i := range t.Puts {
		if _, ok := written[t.Puts[i].Key]; ok {
			return true
		}
	}
	for _, k := range t.Deletes {
		if _, ok := written[k]; ok {
			return true
		}
	}
	return false
}

const opOverhead = 32 // lengths and tags

func (s *store) weight(t *driver.Txn) int {
	size := opOverhead
	for i := range t.Checks {
		size += 2 * (len(s.root) + len(t.Checks[i].Key) + opOverhead)
	}
	for i := range t.Puts {
		size += len(s.root) + len(t.Puts[i].Key) + len(t.Puts[i].Value) + opOverhead
	}
	for _, k := range t.Deletes {
		size += len(s.root) + len(k) + opOverhead
	}
	return size
}
