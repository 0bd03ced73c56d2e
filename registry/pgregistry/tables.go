package pgregistry

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/fault"
)

// What somebody may have done to the tables since they were made, or before. An unlogged table is empty after a
// crash of the server; behind row level security, a rule, a view or a trigger that comes before it, a write does
// less than it says, without an error; and without its primary key two processes make one key. It is looked at
// whenever a registry is opened.

// tableKeys are the tables whose rows are found by a key, and that key.
func tableKeys() []struct{ table, key string } {
	return []struct{ table, key string }{{"entry", "key"}, {"session", "id"}, {"change", "slot"}}
}

// checkTables is fault.Corrupt when a table is not as this program makes it.
func (s *store) checkTables(ctx context.Context, c *pgx.Conn) error {
	for _, t := range tableKeys() {
		var kind, persistence, key string
		var secured bool
		var rules, triggers int
		err := c.QueryRow(ctx, `SELECT c.relkind::text, c.relpersistence::text, c.relrowsecurity,
			(SELECT count(*) FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'),
			(SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 2 <> 0),
			coalesce((SELECT string_agg(a.attname::text, ' ' ORDER BY a.attnum) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
				WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid AND i.indimmediate), '')
			FROM pg_class c WHERE c.oid = to_regclass($1)`, s.q.schema+"."+t.table).Scan(&kind, &persistence, &secured, &rules, &triggers, &key)
		if err != nil {
			return unavailable("postgres registry: schema "+s.schema, err)
		}
		for _, odd := range []struct {
			is              bool
			found, expected string
		}{
			{kind != "r", fmt.Sprintf("it is no table (relkind %q)", kind), "a table"},
			{persistence != "p", "it is unlogged or temporary: after a crash of the server it is empty", "a permanent one (ALTER TABLE … SET LOGGED)"},
			{secured, "it has row level security, which hides rows", "none (ALTER TABLE … DISABLE ROW LEVEL SECURITY)"},
			{rules > 0, fmt.Sprintf("it has %d rules, which do something else than is written", rules), "none (DROP RULE)"},
			{triggers > 0, fmt.Sprintf("it has %d triggers that come before a write, and may change or drop it", triggers), "none (DROP TRIGGER)"},
			{key != t.key, fmt.Sprintf("its primary key is %.100q", key), fmt.Sprintf("%q (ALTER TABLE … ADD PRIMARY KEY)", t.key)},
		} {
			if odd.is {
				return fmt.Errorf("postgres registry: the table %s.%s is not as this program makes it: %s; expected %s, or another schema (?schema=NAME): %w",
					s.schema, t.table, odd.found, odd.expected, fault.Corrupt)
			}
		}
	}
	return nil
}
