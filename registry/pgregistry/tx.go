package pgregistry

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/registry/driver"
)

var _ driver.Transactional = (*store)(nil)

// InTx implements driver.Transactional for pgx.Tx, and for *sql.Tx of any driver of PostgreSQL.
// The transaction's role needs the same rights as the registry's.
func (s *store) InTx(tx any) (driver.TxEntries, error) {
	e := &txEntries{s: s}
	switch t := tx.(type) {
	case pgx.Tx:
		e.tx = pgxTx{t}
	case *sql.Tx:
		if t != nil {
			e.tx = sqlTx{t}
		}
	}
	if e.tx == nil {
		return nil, fmt.Errorf("postgres registry: a transaction of type %T; expected a pgx.Tx or *sql.Tx on the same database: %w", tx, driver.ErrInvalid)
	}
	return e, nil
}

// userTx is what is needed of a user's transaction.
type userTx interface {
	exec(ctx context.Context, sql string, args ...any) (rows int64, err error)
	// query calls each with a function that scans a row.
	query(ctx context.Context, each func(scan func(...any) error) error, sql string, args ...any) error
}

type txEntries struct {
	s  *store
	tx userTx
}

// Both statements stand for themselves in any mode of any driver: keys go as bytes, versions as
// text. A key that is absent gets a placeholder, as in apply_1; it goes with a rollback, is
// written by Put, or else stays, as absent as before.
const (
	txLock = `INSERT INTO {schema}.entry AS e (key, version, value) VALUES {keys} ON CONFLICT (key) DO UPDATE SET version = e.version WHERE false`
	txRead = `SELECT encode(e.key, 'hex'), replace(e.version::text, '-', ''), coalesce(replace(e.session::text, '-', ''), ''), encode(e.value, 'hex')
	FROM {schema}.entry e WHERE e.key IN ({keys}) AND ` + alive
	txPut = `UPDATE {schema}.entry SET version = $2::uuid, value = $3::bytea, session = NULL WHERE key = $1::bytea`
)

// fill completes a statement for n keys, each of which becomes part.
func (e *txEntries) fill(text, part string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.Replace(part, "?", fmt.Sprintf("$%d::bytea", i+1), 1)
	}
	return strings.NewReplacer("{schema}", e.s.q.schema, "{keys}", strings.Join(parts, ", ")).Replace(text)
}

// Lock implements driver.TxEntries.
func (e *txEntries) Lock(ctx context.Context, keys ...string) ([]driver.Entry, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	slices.Reverse(sorted) // the order of all locks, see schema.sql
	args := make([]any, len(sorted))
	for i, k := range sorted {
		args[i] = []byte(k)
	}
	// The rows are locked by one statement and read by a later one, which sees what the
	// transactions wrote that the locks were waited for.
	if _, err := e.tx.exec(ctx, e.fill(txLock, "(?, '00000000-0000-0000-0000-000000000000', '')", len(sorted)), args...); err != nil {
		return nil, e.failed("lock entries", err)
	}
	found := make(map[string]driver.Entry, len(sorted))
	err := e.tx.query(ctx, func(scan func(...any) error) error {
		var key, value []byte
		var version, session string
		err := scan(&key, &version, &session, &value)
		if err == nil {
			key, err = unhex(key)
		}
		if err == nil {
			value, err = unhex(value)
		}
		if err != nil {
			return err
		}
		found[string(key)] = driver.Entry{Key: string(key), Value: value, Version: driver.Version(version), Session: session}
		return nil
	}, e.fill(txRead, "?", len(sorted)), args...)
	if err != nil {
		return nil, e.failed("read entries", err)
	}
	out := make([]driver.Entry, len(keys))
	for i, k := range keys {
		out[i] = found[k]
		out[i].Key = k
	}
	return out, nil
}

// Put implements driver.TxEntries.
func (e *txEntries) Put(ctx context.Context, key string, value []byte) (driver.Version, error) {
	if value == nil {
		value = []byte{}
	}
	v := driver.Version(id{e.s.ids.next()}.text())
	n, err := e.tx.exec(ctx, strings.Replace(txPut, "{schema}", e.s.q.schema, 1), []byte(key), string(v), value)
	switch {
	case err != nil:
		return "", e.failed("write an entry", err)
	case n != 1:
		return "", fmt.Errorf("postgres registry: write an entry in a transaction: key %q is not locked; lock it first: %w", key, driver.ErrInvalid)
	}
	return v, nil
}

// failed is the error of a statement in a user's transaction, which has failed as a whole: what
// the server says is enough to know that nothing was written, the rest is for its commit to say.
func (e *txEntries) failed(doing string, err error) error {
	if again(err) {
		return fmt.Errorf("postgres registry: %s in a transaction: %w: roll back and try again: %w", doing, driver.ErrConflict, err)
	}
	return unavailable("postgres registry: "+doing+" in a transaction", err)
}

type pgxTx struct{ pgx.Tx }

func (t pgxTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (t pgxTx) query(ctx context.Context, each func(func(...any) error) error, sql string, args ...any) error {
	rows, err := t.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	res, err := t.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t sqlTx) query(ctx context.Context, each func(func(...any) error) error, text string, args ...any) error {
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
