package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// The tables. A key is the namespace, a NUL byte, and the key of the registry.
//
//	ringfence_schema     id, version                   one row: 1, the format
//	ringfence_entries    k, version, session_id,       version: 65 random bits of the writer and its count;
//	                     content                       content is NULL for an empty value
//	ringfence_sessions   id, process, ttl, expires     microseconds, by the clock of the database
//	ringfence_revision   id, revision                  counts the transactions that watches hear of
//	ringfence_changes    revision, change_keys         what the latest 1,024 or so changed; each key behind its
//	                                                   length; one zero byte: too many; "!sessions" first
//	ringfence_slots      id, used                      64 rows that stand for absent keys; not in SQLite
//	ringfence_listeners  process, since                processes to wake; MariaDB and MySQL only
//
// Locks are taken in this order, at READ COMMITTED: rows of sessions by id; rows of keys by key; for keys
// without a row the slot FNV-1a(key) mod 64, by number, and the rows once more; the row of the revision last,
// unless the transaction is quiet. That last lock makes revisions appear in order. SQLite has one writer instead.
// The rows of schema, revision and slots are never deleted: without one of them the registry is damaged, not empty.

// schemaVersion is what this program reads and writes.
const schemaVersion = 1

// slots are the rows that absent keys are locked by.
const slots = 64

// ensureSchema creates the tables, or refuses another version of them. The version is written last, so
// that the rest is there when a process reads it.
func (s *Store) ensureSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	for try := 0; ; try++ {
		found, err := s.schemaVersion(ctx)
		if err == nil && found == schemaVersion {
			return s.checkWhole(ctx)
		}
		if err == nil {
			return fmt.Errorf("%s registry: the tables have the schema version %d, this program reads %d: %w",
				s.d.Name, found, schemaVersion, fault.Newer)
		}
		if err := s.cfg.DB.PingContext(ctx); err != nil { // not reached at all
			return s.wrap(ctx, "open", err)
		}
		if errors.Is(err, sql.ErrNoRows) && s.used(ctx) {
			if _, err := s.schemaVersion(ctx); err == nil {
				continue // others have just made it
			}
			return s.wrap(ctx, "open", fmt.Errorf("ringfence_schema has no row, but entries are there: "+putBack,
				fmt.Sprintf("INSERT INTO ringfence_schema (id, version) VALUES (1, %d)", schemaVersion), fault.Corrupt))
		}
		err = s.createSchema(ctx)
		if err == nil {
			continue // read what won
		}
		if try >= 20 || !s.d.again(err) {
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

// putBack is what to do about a missing row.
const putBack = "a row was deleted, or a backup restored in part; restore all of it, or, if nothing else is missing, run %s: %w"

var (
	errNoRevision = fmt.Errorf("ringfence_revision has no row with id 1: "+putBack,
		"INSERT INTO ringfence_revision (id, revision) SELECT 1, COALESCE(MAX(revision), 0) + 1 FROM ringfence_changes", fault.Corrupt)
	errNoSlots = fmt.Errorf("ringfence_slots has not all rows from 0 to %d: "+putBack, slots-1,
		"INSERT INTO ringfence_slots (id, used) VALUES (N, 0) for each number N that is missing", fault.Corrupt)
)

// used reports whether there are entries.
func (s *Store) used(ctx context.Context) bool {
	var n int
	err := s.cfg.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM ringfence_entries").Scan(&n)
	return err == nil && n > 0
}

// checkWhole refuses tables of another engine, and tables that lack a row they were made with.
func (s *Store) checkWhole(ctx context.Context) error {
	if s.d.Tables != nil {
		if err := s.d.Tables(ctx, s.cfg.Reads); err != nil {
			return s.wrap(ctx, "open", err)
		}
	}
	if _, err := s.revision(ctx); err != nil || !s.d.Slots {
		return err
	}
	var n int
	err := s.cfg.Reads.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM ringfence_slots WHERE id BETWEEN 0 AND %d", slots-1)).Scan(&n)
	if err == nil && n < slots {
		err = errNoSlots
	}
	if err != nil {
		return s.wrap(ctx, "open", err)
	}
	return nil
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
	fill := func(table, insert string) error {
		var n int
		if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil || n > 0 {
			return err
		}
		return exec("INSERT INTO " + table + insert)
	}
	if s.d.Slots {
		rows := make([]string, slots)
		for i := range rows {
			rows[i] = fmt.Sprintf("SELECT %d, 0 FROM DUAL", i)
		}
		if err := fill("ringfence_slots", " (id, used) "+strings.Join(rows, " UNION ALL ")); err != nil {
			return err
		}
	}
	if err := fill("ringfence_revision", " (id, revision) VALUES (1, 0)"); err != nil {
		return err
	}
	return exec(fmt.Sprintf("INSERT INTO ringfence_schema (id, version) VALUES (1, %d)", schemaVersion))
}

// pause waits, unless ctx ends first.
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
