package etcdregistry

import (
	"context"
	"errors"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/registry/driver"
)

// Bare implements driver.Bare: the transactions of etcd's that a call is merged into, made up
// beforehand, over etcd's client alone.
func (s *store) Bare(_ context.Context, txns []driver.Txn) (func(context.Context) error, error) {
	var waves [][][]clientv3.Op
	for len(txns) > 0 {
		var wave [][]clientv3.Op
		for _, batch := range s.plan(txns) {
			wave = append(wave, s.branches(batch))
			txns = txns[len(batch):]
		}
		waves = append(waves, wave)
	}
	return func(ctx context.Context) error {
		for _, wave := range waves {
			if err := s.bare(ctx, wave); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// bare sends the requests of a wave at the same time.
func (s *store) bare(ctx context.Context, wave [][]clientv3.Op) error {
	errs := make([]error, len(wave))
	var all sync.WaitGroup
	for i, ops := range wave {
		all.Go(func() { _, errs[i] = s.client.Txn(ctx).Then(ops...).Commit() })
	}
	all.Wait()
	return errors.Join(errs...)
}
