package pgregistry

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/registry/driver"
)

// Bare implements driver.Bare: the statements of a call, their arguments made up beforehand, over
// pgx alone.
func (s *store) Bare(ctx context.Context, txns []driver.Txn) (func(context.Context) error, error) {
	results, err := s.Apply(ctx, txns) // the statement of checkpoints updates: they have to be there
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return nil, err
	}
	type statement struct {
		sql  string
		args *args
	}
	var all []statement
	sql := func(text string) string { return patient(ctx, patienceMax, text) }
	for len(txns) > 0 {
		n := chunk(txns)
		x := statement{sql: sql(s.q.apply), args: newBatch(s.mint, txns[:n]).args()}
		if plain(txns[:n]) {
			x.sql = sql(s.q.commit)
			x.args, _ = checkpoints(s.mint, txns[:n])
		}
		all = append(all, x)
		txns = txns[n:]
	}
	return func(ctx context.Context) error {
		return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			for _, x := range all {
				if r := x.args.exec(ctx, c.Conn(), x.sql); r.Err != nil {
					return r.Err
				}
			}
			return nil
		})
	}, nil
}
