package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// version is the modification revision: it grows with every change of the whole store, so no key
// gets the same twice.
func version(revision int64) driver.Version {
	return driver.Version(strconv.FormatInt(revision, 10))
}

// revision is that of a version; one that no version has when it is not of ours. 0: absent.
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

func (s *store) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	results := make([]driver.Result, 0, len(txns))
	for len(results) < len(txns) {
		batch := txns[len(results):]
		batch = batch[:s.merge(batch)]
		done, unknown, err := s.apply(ctx, batch)
		switch {
		case err == nil:
			results = append(results, done...)
			continue
		case errors.Is(err, rpctypes.ErrTooManyOps) && len(batch) > 1:
			s.log.Warn("etcd takes no merged transactions; checkpoints are stored one by one, and slower", "error", err)
			s.alone.Store(true)
			continue
		case len(batch) == 1 && !unknown && refused(err):
			results = append(results, driver.Result{Err: s.kind(ctx, err)})
			continue
		case len(results) == 0 && !unknown:
			return nil, fmt.Errorf("etcd registry: %w", s.kind(ctx, err))
		}
		// What comes behind a failure is not even tried: it was to be applied later.
		for i := range txns[len(results):] {
			r := driver.Result{Err: fmt.Errorf("etcd registry: an earlier transaction of the call failed: %w: %w", err, fault.Unavailable)}
			if unknown && i < len(batch) {
				r.Err = fmt.Errorf("etcd registry: %w: %w", err, fault.Unknown)
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// apply sends a batch as one request. unknown: nobody can say whether it was applied.
func (s *store) apply(ctx context.Context, batch []driver.Txn) (results []driver.Result, unknown bool, err error) {
	var resp *clientv3.TxnResponse
	ctx, sent := marked(ctx)
	err = s.request(ctx, func(ctx context.Context) (err error) {
		if len(batch) == 1 {
			checks, then, otherwise := s.branches(&batch[0])
			resp, err = s.client.Txn(ctx).If(checks...).Then(then...).Else(otherwise...).Commit()
			return err
		}
		ops := make([]clientv3.Op, len(batch))
		for i := range batch {
			ops[i] = clientv3.OpTxn(s.branches(&batch[i]))
		}
		resp, err = s.client.Txn(ctx).Then(ops...).Commit()
		return err
	})
	if err != nil {
		return nil, sent.Load() && !refused(err), err
	}
	results = make([]driver.Result, len(batch))
	if len(batch) == 1 {
		results[0] = s.result(&batch[0], resp.Succeeded, resp.Responses, resp.Header.Revision)
		return results, false, nil
	}
	for i := range batch {
		inner := resp.Responses[i].GetResponseTxn()
		results[i] = s.result(&batch[i], inner.Succeeded, inner.Responses, resp.Header.Revision)
	}
	return results, false, nil
}

// branches are a transaction in etcd's form. When it is refused it reads the keys it checked, to
// say which was the first that differed.
func (s *store) branches(t *driver.Txn) (checks []clientv3.Cmp, then, otherwise []clientv3.Op) {
	checks = make([]clientv3.Cmp, len(t.Checks))
	otherwise = make([]clientv3.Op, len(t.Checks))
	for i, c := range t.Checks {
		key := s.root + c.Key
		checks[i] = clientv3.Compare(clientv3.ModRevision(key), "=", revision(c.Version))
		otherwise[i] = clientv3.OpGet(key, clientv3.WithKeysOnly())
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
	return checks, then, otherwise
}

func (s *store) result(t *driver.Txn, succeeded bool, responses []*pb.ResponseOp, at int64) driver.Result {
	if succeeded {
		r := driver.Result{Versions: make([]driver.Version, len(t.Puts))}
		for i := range r.Versions {
			r.Versions[i] = version(at)
		}
		return r
	}
	for i, c := range t.Checks {
		var have driver.Version
		if kvs := responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			have = version(kvs[0].ModRevision)
		}
		if have != c.Version {
			return driver.Result{Failed: i, Err: fmt.Errorf("key %q has version %q, expected %q: %w", c.Key, have, c.Version, fault.Conflict)}
		}
	}
	return driver.Result{Err: fmt.Errorf("etcd registry: etcd refused a transaction whose checks hold: %w", fault.Corrupt)}
}
