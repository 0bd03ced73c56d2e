package peer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Reading is compared with two peers only. The others are read here, where it is checked that they keep what
// they acknowledge.

// Scan walks an iterator.
func (s *pebbleStore) Scan(_ context.Context, n int64) (records, bytes int64) {
	it := must(s.db.NewIter(nil))
	for ok := it.First(); ok && records < n; ok = it.Next() {
		bytes += int64(len(must(it.ValueAndErr())))
		records++
	}
	check(it.Close())
	return records, bytes
}

// Scan reads ranges of 1,000 entries.
func (s *redisStore) Scan(ctx context.Context, n int64) (records, bytes int64) {
	for from := "-"; records < n; {
		entries := must(s.client.Do(ctx, s.client.B().Xrange().Key(redisKey).Start(from).End("+").Count(1000).Build()).AsXRange())
		if len(entries) == 0 {
			check(fmt.Errorf("the stream ended after %d of %d entries", records, n))
		}
		for _, e := range entries {
			records++
			bytes += int64(len(e.FieldValues["v"]))
		}
		from = "(" + entries[len(entries)-1].ID
	}
	return records, bytes
}

// Scan reads all rows of one query.
func (s *postgresStore) Scan(ctx context.Context, n int64) (records, bytes int64) {
	rows := must(s.pool.Query(ctx, "SELECT value FROM records ORDER BY position LIMIT $1", n))
	var value pgtype.DriverBytes
	must(pgx.ForEachRow(rows, []any{&value}, func() error {
		records++
		bytes += int64(len(value))
		return nil
	}))
	return records, bytes
}
