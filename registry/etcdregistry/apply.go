package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry/driver"
)

// Independent transactions travel together, as merge.go plans: waves of requests, each of which etcd
// applies as a whole. A request first goes under the condition that all of its checks hold, which is the
// usual case. If one fails, each transaction goes as a branch with a condition of its own, and if etcd's
// limit on operations is too low for that, alone. A failed wave ends the call: later waves are not tried.

// version is the modification revision. It grows with every change of the store, so no key gets one twice.
func version(revision int64) driver.Version {
	return driver.Version(strconv.FormatInt(revision, 10))
}

// revision is that of a version: 0 for absent, and -1, which no key has, for a text that is no version.
func revision(v driver.Version) int64 {
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n <= 0 || version(n) != v {
		return -1
	}
	return n
}

// Apply implements driver.Registry.
func (s *store) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	results := make([]driver.Result, 0, len(txns))
	for len(results) < len(txns) {
		sent := len(results)
		parts := s.together(ctx, s.plan(txns[sent:]))
		failed, applied := error(nil), sent > 0
		for _, p := range parts {
			results = append(results, p.results...)
			failed = errors.Join(failed, p.failed)
			applied = applied || p.failed == nil || p.unknown
		}
		switch {
		case failed == nil:
			continue
		case !applied:
			return nil, fmt.Errorf("etcd registry: %w", s.kind(ctx, failed))
		}
		// The rest was to be applied later, so it is not tried.
		err := fmt.Errorf("etcd registry: an earlier transaction of the call failed: %w: %w", failed, fault.Unavailable)
		results = append(results, slices.Repeat([]driver.Result{{Err: err}}, len(txns)-len(results))...)
	}
	return results, nil
}

// part is the outcome of one request.
type part struct {
	results []driver.Result
	failed  error // the request failed as a whole
	unknown bool  // and may have been applied
}

// together sends the requests of a wave at the same time.
func (s *store) together(ctx context.Context, wave [][]driver.Txn) []part {
	ctx = hook.AtOnce(ctx)
	parts := make([]part, len(wave))
	var others sync.WaitGroup
	for i := range wave[1:] {
		others.Go(func() { parts[1+i] = s.send(ctx, wave[1+i]) })
	}
	parts[0] = s.send(ctx, wave[0])
	others.Wait()
	return parts
}

// send sends a batch as one request.
func (s *store) send(ctx context.Context, batch []driver.Txn) part {
	if len(batch) == 1 {
		return s.one(ctx, &batch[0])
	}
	if w := s.whole(batch); w != nil {
		resp, unknown, err := s.commit(ctx, w.fill)
		if err != nil && !errors.Is(err, rpctypes.ErrTooManyOps) {
			return fail(len(batch), unknown, err)
		}
		if err == nil && resp.Succeeded {
			p := part{results: make([]driver.Result, len(batch))}
			for i := range batch {
				p.results[i] = accepted(&batch[i], resp.Header.Revision)
			}
			return p
		}
	}
	return s.each(ctx, batch)
}

// each sends a batch as one request in which every transaction has its own condition.
func (s *store) each(ctx context.Context, batch []driver.Txn) part {
	ops := make([]clientv3.Op, len(batch))
	for i := range batch {
		checks, then := s.branch(&batch[i])
		ops[i] = clientv3.OpTxn(checks, then, nil)
	}
	resp, unknown, err := s.commit(ctx, func(t clientv3.Txn) clientv3.Txn { return t.Then(ops...) })
	if err != nil && !unknown && errors.Is(err, rpctypes.ErrTooManyOps) {
		if s.alone.CompareAndSwap(false, true) {
			s.log.Warn("etcd takes no merged transactions, so checkpoints are stored one by one, and slower: set its option --max-txn-ops to 128 or more", "error", err)
		}
		return s.oneByOne(ctx, batch)
	}
	if err != nil {
		return fail(len(batch), unknown, err)
	}
	p := part{results: make([]driver.Result, len(batch))}
	for i := range batch {
		if resp.Responses[i].GetResponseTxn().Succeeded {
			p.results[i] = accepted(&batch[i], resp.Header.Revision)
			continue
		}
		// Sent again alone, it shows which check failed. Should the checks hold by now, it is applied.
		p.results[i] = s.one(ctx, &batch[i]).results[0]
	}
	return p
}

func (s *store) oneByOne(ctx context.Context, batch []driver.Txn) part {
	var p part
	for i := range batch {
		x := s.one(ctx, &batch[i])
		if x.failed != nil && len(p.results) > 0 {
			// Something of the part was applied.
			x = fail(len(batch)-i, x.unknown, x.failed)
			return part{results: append(p.results, x.results...), failed: x.failed, unknown: true}
		}
		if x.failed != nil {
			return fail(len(batch), x.unknown, x.failed)
		}
		p.results = append(p.results, x.results...)
	}
	return p
}

// one sends one transaction.
func (s *store) one(ctx context.Context, t *driver.Txn) part {
	checks, then := s.branch(t)
	otherwise := make([]clientv3.Op, len(t.Checks))
	for i, c := range t.Checks {
		otherwise[i] = clientv3.OpGet(s.root+c.Key, clientv3.WithKeysOnly())
	}
	resp, unknown, err := s.commit(ctx, func(x clientv3.Txn) clientv3.Txn { return x.If(checks...).Then(then...).Else(otherwise...) })
	switch {
	case err != nil && !unknown && refused(err):
		return part{results: []driver.Result{{Err: s.kind(ctx, err)}}}
	case err != nil:
		return fail(1, unknown, err)
	case resp.Succeeded:
		return part{results: []driver.Result{accepted(t, resp.Header.Revision)}}
	}
	return part{results: []driver.Result{conflict(t, resp.Responses)}}
}

func fail(n int, unknown bool, err error) part {
	kind := fault.Unavailable
	if unknown {
		kind = fault.Unknown
	}
	all := slices.Repeat([]driver.Result{{Err: fmt.Errorf("etcd registry: %w: %w", err, kind)}}, n)
	return part{results: all, failed: err, unknown: unknown}
}

// commit sends one request. unknown: it failed, and may have been applied.
func (s *store) commit(ctx context.Context, fill func(clientv3.Txn) clientv3.Txn) (resp *clientv3.TxnResponse, unknown bool, err error) {
	unknown, err = s.whileFull(ctx, func() (bool, error) {
		ctx, sent := marked(ctx)
		err := s.request(ctx, func(ctx context.Context) (err error) {
			resp, err = fill(s.client.Txn(ctx)).Commit()
			return err
		})
		return err != nil && sent.Load() && !refused(err), err
	})
	hook.Sent(ctx, func(ctx context.Context) error {
		_, err := fill(s.client.Txn(ctx)).Commit()
		return err
	})
	return resp, unknown, err
}

// branch is a transaction in etcd's form.
func (s *store) branch(t *driver.Txn) (checks []clientv3.Cmp, then []clientv3.Op) {
	checks = make([]clientv3.Cmp, len(t.Checks))
	for i, c := range t.Checks {
		checks[i] = clientv3.Compare(clientv3.ModRevision(s.root+c.Key), "=", revision(c.Version))
	}
	then = make([]clientv3.Op, 0, len(t.Puts)+len(t.Deletes))
	for i := range t.Puts {
		p := &t.Puts[i]
		var opts []clientv3.OpOption
		if p.Session != "" {
			opts = []clientv3.OpOption{clientv3.WithLease(leaseID(p.Session))}
		}
		then = append(then, clientv3.OpPut(s.root+p.Key, string(p.Value), opts...))
	}
	for _, k := range t.Deletes {
		then = append(then, clientv3.OpDelete(s.root+k))
	}
	return checks, then
}

func accepted(t *driver.Txn, at int64) driver.Result {
	r := driver.Result{Versions: make([]driver.Version, len(t.Puts))}
	for i := range r.Versions {
		r.Versions[i] = version(at)
	}
	return r
}

// conflict finds the failed check, by the keys as they were at that moment.
func conflict(t *driver.Txn, keys []*pb.ResponseOp) driver.Result {
	for i, c := range t.Checks {
		var have driver.Version
		if kvs := keys[i].GetResponseRange().Kvs; len(kvs) > 0 {
			have = version(kvs[0].ModRevision)
		}
		if have != c.Version {
			return driver.Result{Failed: i, Err: fmt.Errorf("key %q has version %q, expected %q: %w", c.Key, have, c.Version, fault.Conflict)}
		}
	}
	return driver.Result{Err: fmt.Errorf("etcd registry: etcd refused a transaction whose checks hold: %w", fault.Corrupt)}
}
