package peer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Reading is compared with two peers only. The others are read here, where it is checked that they keep what
// they acknowledge.

// Scan walks an iterator.
func (s *pebbleStore) Scan(_ context.Context, n int64) (records, bytes int64, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return 0, 0, err
	}
	for ok := it.First(); ok && records < n; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			it.Close()
			return records, bytes, err
		}
		records++
		bytes += int64(len(v))
	}
	return records, bytes, it.Close()
}

// Scan reads ranges of 1,000 entries.
func (s *redisStore) Scan(ctx context.Context, n int64) (records, bytes int64, err error) {
	from := "-"
	for records < n {
		entries, err := s.client.Do(ctx, s.client.B().Xrange().Key(redisKey).Start(from).End("+").Count(1000).Build()).AsXRange()
		if err != nil {
			return records, bytes, err
		}
		if len(entries) == 0 {
			return records, bytes, fmt.Errorf("the stream ended after %d of %d entries", records, n)
		}
		for _, e := range entries {
			records++
			bytes += int64(len(e.FieldValues["v"]))
		}
		from = "(" + entries[len(entries)-1].ID
	}
	return records, bytes, nil
}

// Scan reads all rows of one query.
func (s *postgresStore) Scan(ctx context.Context, n int64) (records, bytes int64, err error) {
	rows, err := s.pool.Query(ctx, "SELECT value FROM records ORDER BY position LIMIT $1", n)
	if err != nil {
		return 0, 0, err
	}
	var value pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&value}, func() error {
		records++
		bytes += int64(len(value))
		return nil
	})
	return records, bytes, err
}

// Scan reads the message files one by one.
func (s *seedFile) Scan(_ context.Context, n int64) (records, bytes int64, err error) {
	for i := int64(1); i <= n; i++ {
		data, err := os.ReadFile(filepath.Join(s.dir, messageName(i)))
		if err != nil {
			return records, bytes, err
		}
		records++
		bytes += int64(len(data))
	}
	return records, bytes, nil
}
