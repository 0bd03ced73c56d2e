package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// InTx implements driver.Transactional for *sql.Tx.
func (s *Store) InTx(tx any) (driver.TxEntries, error) {
	t, ok := tx.(*sql.Tx)
	if !ok || t == nil {
		return nil, fmt.Errorf("%s registry: a transaction of type %T; expected a *sql.Tx on the same database: %w", s.d.Name, tx, fault.Invalid)
	}
	return &txEntries{s: s, tx: t}, nil
}

type txEntries struct {
	s  *Store
	tx *sql.Tx
}

// Lock implements driver.TxEntries.
func (e *txEntries) Lock(ctx context.Context, keys ...string) ([]driver.Entry, error) {
	s := e.s
	if err := s.cfg.Intact(); err != nil {
		return nil, e.wrap(ctx, "lock", err)
	}
	if s.d.LockAll != "" {
		if _, err := e.tx.ExecContext(ctx, s.d.LockAll); err != nil {
			return nil, e.wrap(ctx, "lock", err)
		}
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	entries := make(map[string]driver.Entry)
	read := func(keys []string) error {
		return s.lockRows(ctx, e.tx, keys, true, func(k string, r row, value []byte) {
			entries[k] = driver.Entry{Key: k, Value: value, Version: r.version, Session: r.session}
		})
	}
	if err := read(sorted); err != nil {
		return nil, e.wrap(ctx, "lock", err)
	}
	absent := slices.DeleteFunc(sorted, func(k string) bool { return entries[k].Version != "" })
	if s.d.Slots && len(absent) > 0 {
		if err := s.lockSlots(ctx, e.tx, absent); err != nil {
			return nil, e.wrap(ctx, "lock", err)
		}
		if err := read(absent); err != nil {
			return nil, e.wrap(ctx, "lock", err)
		}
	}
	out := make([]driver.Entry, len(keys))
	for i, k := range keys {
		if out[i] = entries[k]; out[i].Version == "" {
			out[i] = driver.Entry{Key: k}
		}
	}
	return out, nil
}

// Put implements driver.TxEntries.
func (e *txEntries) Put(ctx context.Context, key string, value []byte) (driver.Version, error) {
	v := e.s.version()
	q, args := e.s.d.upsert([]any{[]byte(key), string(v), null(""), e.s.d.blob(value)})
	if _, err := e.tx.ExecContext(ctx, q, args...); err != nil {
		return "", e.wrap(ctx, "put", err)
	}
	return v, nil
}

// wrap: a deadlock has ended the user's transaction, which only the user can repeat.
func (e *txEntries) wrap(ctx context.Context, what string, err error) error {
	if e.s.d.again(err) {
		return fmt.Errorf("%s registry: %s in a transaction: %w: roll back and try again: %w", e.s.d.Name, what, fault.Conflict, err)
	}
	return e.s.wrap(ctx, what, err)
}
