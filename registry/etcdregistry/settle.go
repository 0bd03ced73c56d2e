package etcdregistry

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An etcd whose quota is reached answers ErrNoSpace to what it refuses, and just the same to what it
// has applied: a node looks at the quota before it proposes a transaction, and again when it
// executes it, which it does whatever it finds. So the answer alone says nothing.
//
// It stays full until somebody frees it, and all that is tried meanwhile should be a pause, not a
// riddle: what is unknown is tried again at once, what is unavailable after a while. So once it said
// that it is full, the revision of the store is read before each transaction, and again after the
// next such answer. Each transaction that changes something adds one; a store that is still at the
// same has applied nothing.

// settled sends a transaction to an etcd that may be full. unknown: it failed, and may have been
// applied.
func (s *store) settled(ctx context.Context, send func() (unknown bool, err error)) (unknown bool, err error) {
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

// revision is that of the whole store, at least as new as every answer that came; 0: it could not be
// read.
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
