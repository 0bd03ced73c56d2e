package etcdregistry

import (
	"context"
	"errors"
	"sync"

	"github.com/ringfence/ringfence/registry/driver"
)

// Bare implements driver.Bare: the transactions of etcd's that a call is merged into, made up
// beforehand, over etcd's client alone.
func (s *store) Bare(_ context.Context, txns []driver.Txn) (func(context.Context) error, error) {
	var waves [][]*request
	for len(txns) > 0 {
		var wave []*request
		for _, batch := range s.plan(txns) {
			r := s.whole(batch)
			if r == nil {
				r = &request{then: s.branches(batch)}
			}
			wave = append(wave, r)
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
func (s *store) bare(ctx context.Context, wave []*request) error {
	errs := make([]error, len(wave))
	var all sync.WaitGroup
	for i, r := range wave {
		all.Go(func() { _, errs[i] = r.fill(s.client.Txn(ctx)).Commit() })
	}
	all.Wait()
	return errors.Join(errs...)
}
