package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// schemaVersion is what this program reads and writes.
const schemaVersion = 1

// slots are the rows that absent keys are locked by.
const slots = 64

// ensureSchema creates the tables, or refuses a version that this program does not know. The
// version is written last: whoever reads it finds all the rest.
func (s *Store) ensureSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	for try := 0; ; try++ {
		found, err := s.schemaVersion(ctx)
		if err == nil && found == schemaVersion {
			return nil
		}
		if err == nil {
			return fmt.Errorf("%s registry: the tables have the schema version %d; this program knows %d: upgrade it, or name another database: %w",
				s.d.Name, found, schemaVersion, fault.Invalid)
		}
		if err := s.cfg.DB.PingContext(ctx); err != nil { // not reached at all
			return s.wrap(ctx, "open", err)
		}
		err = s.createSchema(ctx)
		if err == nil {
			continue // read what won
		}
		if try >= 20 || s.d.Fate(err) != Again {
			return s.wrap(ctx, "create tables", err)
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return s.wrap(ctx, "create tables", err)
		}
	}
}

func (s *Store) schemaVersion(ctx context.Context) (n int, err error) {
	err = s.cfg.DB.QueryRowContext(ctx, "SELECT version FROM ringfence_schema").Scan(&n)
	return n, err
}

func (s *Store) createSchema(ctx context.Context) error {
	conn, err := s.cfg.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	exec := func(q string) error {
		_, err := conn.ExecContext(ctx, q)
		if err != nil && s.d.Ignore != nil && s.d.Ignore(err) {
			return nil
		}
		return err
	}
	for _, q := range s.d.Schema {
		if err := exec(q); err != nil {
			return err
		}
	}
	insert := func(table, column string, value int) error {
		var n int
		err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE id = %d", column, table, value)).Scan(&n)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return exec(fmt.Sprintf("INSERT INTO %s (id, %s) VALUES (%d, 0)", table, column, value))
	}
	if s.d.Slots {
		for i := range slots {
			if err := insert("ringfence_slots", "used", i); err != nil {
				return err
			}
		}
	}
	if err := insert("ringfence_revision", "revision", 1); err != nil {
		return err
	}
	return exec(fmt.Sprintf("INSERT INTO ringfence_schema (id, version) VALUES (1, %d)", schemaVersion))
}

// pause waits, or says why not.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
