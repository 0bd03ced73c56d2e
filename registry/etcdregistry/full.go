package etcdregistry

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An etcd whose quota is reached answers ErrNoSpace to a transaction that it refuses, and also to one
// that it has applied: a node checks the quota before it proposes a transaction, and again when it
// executes it regardless. So the answer alone proves nothing.
//
// The store stays full until an operator makes room. Callers should pause meanwhile: an unknown result
// is tried again at once, an unavailable store after a while. So once etcd says that it is full, the
// revision is read before each transaction, and again after the next ErrNoSpace. Each change adds one to
// the revision, so an unchanged revision proves that nothing was applied.

// whileFull sends a transaction to an etcd that may be full. unknown: it failed, and may have been
// applied.
func (s *store) whileFull(ctx context.Context, send func() (unknown bool, err error)) (unknown bool, err error) {
	var before int64
	if s.full.Load() {
		before = s.revision(ctx)
	}
	unknown, err = send()
	switch {
	case err == nil:
		if s.full.CompareAndSwap(true, false) {
			s.log.Info("etcd has room again")
		}
	case errors.Is(err, rpctypes.ErrNoSpace):
		if s.full.CompareAndSwap(false, true) {
			s.log.Warn("etcd has reached its quota and refuses writes: compact and defragment it, then disarm its alarm", "error", err)
		}
		if unknown && before != 0 && s.revision(ctx) == before {
			unknown = false
		}
	}
	return unknown, err
}

// revision is that of the whole store, at least as new as every answer so far; 0: it can't be read.
func (s *store) revision(ctx context.Context) (at int64) {
	_ = s.request(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, s.root, clientv3.WithCountOnly())
		if err == nil {
			at = resp.Header.Revision
		}
		return err
	})
	return at
}
