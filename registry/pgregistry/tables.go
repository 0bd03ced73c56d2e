package pgregistry

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/fault"
)

// Tables that were restored in part, or altered, may lose writes without an error. An unlogged table is
// empty after a crash of the server. Row level security hides rows. Without a primary key, which pg_restore
// adds last, two processes can make one key. Each opening looks for these.

// tableKeys are the tables whose rows are found by a key, and that key.
func tableKeys() []struct{ table, key string } {
	return []struct{ table, key string }{{"entry", "key"}, {"session", "id"}, {"change", "slot"}}
}

// checkTables is fault.Corrupt when a table is not as this program makes it.
func (s *store) checkTables(ctx context.Context, c *pgx.Conn) error {
	for _, t := range tableKeys() {
		var persistence, key string
		var secured bool
		err := c.QueryRow(ctx, `SELECT c.relpersistence::text, c.relrowsecurity,
			coalesce((SELECT string_agg(a.attname::text, ' ' ORDER BY a.attnum) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
				WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid AND i.indimmediate), '')
			FROM pg_class c WHERE c.oid = to_regclass($1)`, s.q.schema+"."+t.table).Scan(&persistence, &secured, &key)
		if err != nil {
			return unavailable("postgres registry: schema "+s.schema, err)
		}
		for _, wrong := range []struct {
			is              bool
			found, expected string
		}{
			{persistence != "p", "it is unlogged or temporary: after a crash of the server it is empty", "a permanent one (ALTER TABLE … SET LOGGED)"},
			{secured, "it has row level security, which hides rows", "none (ALTER TABLE … DISABLE ROW LEVEL SECURITY)"},
			{key != t.key, fmt.Sprintf("its primary key is %.100q", key), fmt.Sprintf("%q (ALTER TABLE … ADD PRIMARY KEY)", t.key)},
		} {
			if wrong.is {
				return fmt.Errorf("postgres registry: the table %s.%s is not as this program makes it: %s; expected %s, or another schema (?schema=NAME): %w",
					s.schema, t.table, wrong.found, wrong.expected, fault.Corrupt)
			}
		}
	}
	return nil
}
