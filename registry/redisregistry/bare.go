package redisregistry

import (
	"context"

	"github.com/ringfence/ringfence/registry/driver"
)

// Bare implements driver.Bare: the same calls of the same script, made up beforehand.
func (s *store) Bare(_ context.Context, txns []driver.Txn) (func(context.Context) error, error) {
	var calls [][]string
	for len(txns) > 0 {
		n := chunk(txns)
		calls = append(calls, encode(txns[:n], newID(), s.names.session, s.names.changes))
		txns = txns[n:]
	}
	return func(ctx context.Context) error {
		for _, args := range calls {
			if err := s.apply.Exec(ctx, s.client, s.names.keys, args).Error(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
