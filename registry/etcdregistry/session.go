package etcdregistry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// sessionID names a lease as etcdctl prints it. etcd makes the number from the node, the time and
// a counter.
func sessionID(id clientv3.LeaseID) string {
	if id == clientv3.NoLease {
		return ""
	}
	return strconv.FormatInt(int64(id), 16)
}

// leaseID is that of a session. One that is none of ours gets a lease that never exists.
func leaseID(session string) clientv3.LeaseID {
	n, err := strconv.ParseInt(session, 16, 64)
	if err != nil || n <= 0 {
		return -1
	}
	return clientv3.LeaseID(n)
}

// SessionTTL implements driver.Patience: what etcd grants at least, at its default election timeout.
// The README promises a takeover within 3 s, and etcd takes up to half a second to end a lease.
func (s *store) SessionTTL() time.Duration { return 2 * time.Second }

// OpenSession implements driver.Registry. etcd counts a TTL in seconds and grants one and a half
// of its election timeouts at least: 2 s at its defaults. The session's deadline follows what it
// granted.
func (s *store) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	var granted *clientv3.LeaseGrantResponse
	opened, err := lease.Ask(nil, func() error {
		return s.request(ctx, func(ctx context.Context) (err error) {
			granted, err = s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("etcd registry: open a session: %w", s.kind(ctx, err))
	}
	id := granted.ID
	x := s.own.Start(lease.Config{
		ID: sessionID(id), TTL: time.Duration(granted.TTL) * time.Second, Opened: opened, Logger: s.log, Gate: s.gate,
		Renew: func(ctx context.Context) error { return s.renew(ctx, id) },
		End:   func(ctx context.Context) error { return s.revoke(ctx, id) },
	})
	if x == nil {
		return nil, errors.Join(fmt.Errorf("etcd registry: %w", fault.Closed), s.revoke(ctx, id))
	}
	return x, nil
}

func (s *store) renew(ctx context.Context, id clientv3.LeaseID) error {
	err := s.request(ctx, func(ctx context.Context) error {
		_, err := s.client.KeepAliveOnce(ctx, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("etcd registry: renew session %s: %w", sessionID(id), s.kind(ctx, err))
	}
	return nil
}

// revoke ends a lease; its entries go at the same revision.
func (s *store) revoke(ctx context.Context, id clientv3.LeaseID) error {
	err := s.request(ctx, func(ctx context.Context) error {
		_, err := s.client.Revoke(ctx, id)
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("etcd registry: end session %s: %w", sessionID(id), s.kind(ctx, err))
	}
	return nil
}
