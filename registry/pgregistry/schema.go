package pgregistry

import (
	"context"
	_ "embed"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/fault"
)

//go:embed schema.sql
var schemaSQL string

// formatLevel is the format of schema.sql.
const formatLevel = 1

// prepare makes the schema if it is missing, and refuses one of a newer format.
func (s *store) prepare(ctx context.Context) error {
	c, err := s.connect(ctx, s.conn)
	if err != nil {
		return unavailable("postgres registry: connecting", err)
	}
	defer c.Close(ctx) //nolint:errcheck // its work is committed
	level, err := s.level(ctx, c)
	if err == nil && level == 0 {
		level, err = s.create(ctx, c)
	}
	if err != nil {
		return unavailable("postgres registry: schema "+s.schema, err)
	}
	if level < 1 {
		return fmt.Errorf("postgres registry: schema %s: the table format has no row: it was deleted, or a backup was restored in part; restore all of it, or, if nothing else is missing, run INSERT INTO %s.format VALUES (%d): %w",
			s.schema, s.q.schema, formatLevel, fault.Corrupt)
	}
	if level > formatLevel {
		return fmt.Errorf("postgres registry: schema %s has format %d, this program reads %d: %w",
			s.schema, level, formatLevel, fault.Newer)
	}
	if err := s.checkTables(ctx, c); err != nil {
		return err
	}
	var counters int
	if err := c.QueryRow(ctx, `SELECT count(*) FROM `+s.q.schema+`.change WHERE slot BETWEEN 0 AND 15`).Scan(&counters); err != nil {
		return unavailable("postgres registry: schema "+s.schema, err)
	}
	if counters < 16 {
		return fmt.Errorf("postgres registry: schema %s: the table change has %d rows with a slot from 0 to 15; expected 16, as changes of the others are not signalled; restore all of the backup, or run INSERT INTO %s.change SELECT slot, 0 FROM generate_series(0, 15) slot ON CONFLICT DO NOTHING: %w",
			s.schema, counters, s.q.schema, fault.Corrupt)
	}
	return nil
}

// level is the format of the schema; 0: there is none.
func (s *store) level(ctx context.Context, c *pgx.Conn) (level int, err error) {
	err = c.QueryRow(ctx, `SELECT coalesce(max(level), 0) FROM `+s.q.schema+`.format`).Scan(&level)
	if code(err) == codeNoTable || code(err) == codeNoSchema {
		return 0, nil
	}
	return level, err
}

const isMade = `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relname = 'format')`

// create makes the whole schema in one transaction. Of many processes that start at once, one makes it and
// the others wait for a lock. After it they ask the tables of the catalog: to_regclass may answer from a
// cache of the server process that is as old as the transaction.
func (s *store) create(ctx context.Context, c *pgx.Conn) (level int, err error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte("ringfence schema " + s.schema))
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(h.Sum64())); err != nil { //nolint:gosec // any 64 bits do
			return err
		}
		exists := false
		if err := tx.QueryRow(ctx, isMade, s.schema).Scan(&exists); err != nil || exists {
			return err
		}
		_, err := tx.Exec(ctx, s.q.fill(schemaSQL), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return 0, err
	}
	return s.level(ctx, c)
}

// Tables that were restored in part, or altered, may lose writes without an error. An unlogged table is
// empty after a crash of the server. Row level security hides rows. Without a primary key, which pg_restore
// adds last, two processes can make one key. Each opening looks for these.

// checkTables is fault.Corrupt when a table is not as this program makes it.
func (s *store) checkTables(ctx context.Context, c *pgx.Conn) error {
	for _, t := range []struct{ table, key string }{{"entry", "key"}, {"session", "id"}, {"change", "slot"}} {
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
