package etcdregistry

import (
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/registry/driver"
)

// Independent transactions are merged: they become the branches of one transaction of etcd's,
// each with its own condition, so that one costs about what a put costs, and not a request and a
// turn of the consensus. etcd evaluates the conditions of all branches before it executes any, and
// refuses two writes of one key, so a transaction that looks at or writes what an earlier one
// writes begins a new batch.
//
// A wave is several batches that are sent at the same time. Then nothing says in which order they
// are applied, so only quiet transactions (checkpoints), of which none depends on another, form one.
//
// Checkpoints hold nearly always, all of them. So a batch of them is tried first as one
// transaction under the conditions of all, which costs etcd and us a tenth less, and goes
// through branches when it was refused.
//
// etcd allows 128 operations in a transaction (--max-txn-ops) and subtracts the number of the
// branches from what each of them may hold.
const (
	maxOps       = 128
	maxBranches  = 104
	maxBranchOps = 24
	// etcd takes requests of 1.5 MiB (--max-request-bytes).
	maxBatchBytes = 1 << 20
	maxWave       = 4
)

// request is a transaction of etcd's without an alternative.
type request struct {
	checks []clientv3.Cmp
	then   []clientv3.Op
}

func (r *request) fill(t clientv3.Txn) clientv3.Txn { return t.If(r.checks...).Then(r.then...) }

// whole is a batch of checkpoints that are applied all or none; nil where that is of no use.
func (s *store) whole(batch []driver.Txn) *request {
	r := &request{checks: make([]clientv3.Cmp, 0, maxOps), then: make([]clientv3.Op, 0, maxOps)}
	for i := range batch {
		t := &batch[i]
		if !t.Quiet || len(r.checks)+len(t.Checks) > maxOps || len(r.then)+len(t.Puts)+len(t.Deletes) > maxOps {
			return nil
		}
		checks, then := s.branch(t)
		r.checks, r.then = append(r.checks, checks...), append(r.then, then...)
	}
	return r
}

// plan is the next wave: batches of txns, from the first on, that may be sent at the same time.
func (s *store) plan(txns []driver.Txn) [][]driver.Txn {
	if s.alone.Load() || !mergeable(&txns[0]) {
		return [][]driver.Txn{txns[:1]}
	}
	var wave [][]driver.Txn
	written := make(map[string]struct{}, len(txns))
	quiet, start, size := true, 0, 0
	for n := range txns {
		t := &txns[n]
		if !mergeable(t) || meets(t, written) || len(wave) > 0 && !t.Quiet {
			return append(wave, txns[start:n])
		}
		quiet = quiet && t.Quiet
		size += s.weight(t)
		if n-start == maxBranches || n > start && size > maxBatchBytes {
			wave = append(wave, txns[start:n])
			if !quiet || len(wave) == maxWave {
				return wave
			}
			start, size = n, s.weight(t)
		}
		for i := range t.Puts {
			written[t.Puts[i].Key] = struct{}{}
		}
		for _, k := range t.Deletes {
			written[k] = struct{}{}
		}
	}
	return append(wave, txns[start:])
}

// mergeable: a session that has ended makes etcd refuse the whole request, so puts into one go
// alone; they are rare.
func mergeable(t *driver.Txn) bool {
	if max(len(t.Checks), len(t.Puts)+len(t.Deletes)) > maxBranchOps {
		return false
	}
	return !slices.ContainsFunc(t.Puts, func(p driver.Put) bool { return p.Session != "" })
}

// meets says whether t depends on a key that was written.
func meets(t *driver.Txn, written map[string]struct{}) bool {
	in := func(k string) bool { _, ok := written[k]; return ok }
	return slices.ContainsFunc(t.Checks, func(c driver.Check) bool { return in(c.Key) }) ||
		slices.ContainsFunc(t.Puts, func(p driver.Put) bool { return in(p.Key) }) || slices.ContainsFunc(t.Deletes, in)
}

const opOverhead = 32 // lengths and tags

func (s *store) weight(t *driver.Txn) int {
	size := opOverhead
	for i := range t.Checks {
		size += len(s.root) + len(t.Checks[i].Key) + opOverhead
	}
	for i := range t.Puts {
		size += len(s.root) + len(t.Puts[i].Key) + len(t.Puts[i].Value) + opOverhead
	}
	for _, k := range t.Deletes {
		size += len(s.root) + len(k) + opOverhead
	}
	return size
}
