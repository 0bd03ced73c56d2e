package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/registry/driver"
)

// A statement takes so many keys, and values of so many bytes.
const (
	maxRows  = 200
	maxBytes = 3 << 20
)

// lockSessions finds out which of the sessions are alive, and keeps them so.
func (b *batch) lockSessions(ctx context.Context) error {
	d := b.s.d
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(b.alive)), maxRows) {
		alive, err := Column[string](ctx, b.q, "SELECT id FROM ringfence_sessions WHERE id IN "+d.list(len(ids))+
			" AND expires > "+d.Now()+" ORDER BY id"+d.ForShare, anys(ids)...)
		if err != nil {
			return err
		}
		for _, id := range alive {
			b.alive[id] = true
		}
	}
	return nil
}

// lockKeys reads and locks all keys. Absent keys have no row to lock, so their slots stand in: each insert of a
// row locks its slot as well. After the lock of a slot the key is read again, because the row may have come
// meanwhile.
func (b *batch) lockKeys(ctx context.Context) error {
	keys := slices.Sorted(maps.Keys(b.keys))
	found := func(k string, r row, _ []byte) { b.keys[k] = r }
	if err := b.s.lockRows(ctx, b.q, keys, false, found); err != nil {
		return err
	}
	if !b.s.d.Slots {
		return nil
	}
	absent := slices.DeleteFunc(keys, func(k string) bool { return b.keys[k].version != "" })
	if len(absent) == 0 {
		return nil
	}
	if err := b.s.lockSlots(ctx, b.q, absent); err != nil {
		return err
	}
	return b.s.lockRows(ctx, b.q, absent, false, found)
}

// lockRows locks the rows of keys, which are sorted, and passes on what it finds.
func (s *Store) lockRows(ctx context.Context, q Querier, keys []string, values bool, found func(string, row, []byte)) error {
	columns := "k, version, session_id"
	if values {
		columns += ", content"
	}
	for chunk := range slices.Chunk(keys, maxRows) {
		args := make([]any, len(chunk))
		for i, k := range chunk {
			args[i] = []byte(k)
		}
		err := each(ctx, q, func(scan func(...any) error) error {
			var key, value []byte
			var version string
			var session sql.NullString
			into := []any{&key, &version, &session}
			if values {
				into = append(into, &value)
			}
			if err := scan(into...); err != nil {
				return err
			}
			found(string(key), row{version: driver.Version(version), session: session.String}, value)
			return nil
		}, "SELECT "+columns+" FROM ringfence_entries"+s.d.Hint+" WHERE k IN "+s.d.list(len(chunk))+" ORDER BY k"+s.d.ForUpdate, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) lockSlots(ctx context.Context, q Querier, keys []string) error {
	set := make(map[int]bool)
	for _, k := range keys {
		h := fnv.New32a()
		_, _ = h.Write([]byte(k))
		set[int(h.Sum32()%slots)] = true
	}
	ids := slices.Sorted(maps.Keys(set))
	found, err := Column[int](ctx, q, "SELECT id FROM ringfence_slots WHERE id IN "+s.d.list(len(ids))+" ORDER BY id"+s.d.ForUpdate, anys(ids)...)
	if err == nil && len(found) < len(ids) {
		return errNoSlots // nothing would keep two from making one key
	}
	return err
}

// flush writes what the transactions left, in the order of keys.
func (b *batch) flush(ctx context.Context) error {
	var puts, deletes []string
	for _, k := range slices.Sorted(maps.Keys(b.writes)) {
		if b.writes[k].put != nil {
			puts = append(puts, k)
		} else {
			deletes = append(deletes, k)
		}
	}
	most, bytes := cmp.Or(b.s.d.MaxUpsert, maxRows), cmp.Or(b.s.cfg.MaxBytes, maxBytes)
	for len(puts) > 0 {
		var args []any
		n, size := 0, 0
		for n < len(puts) && n < most && size < bytes {
			w := b.writes[puts[n]]
			args = append(args, []byte(puts[n]), string(w.version), null(w.put.Session), b.s.d.blob(w.put.Value))
			size += len(puts[n]) + len(w.put.Value)
			n++
		}
		q, args := b.s.d.upsert(args)
		if _, err := b.q.ExecContext(ctx, q, args...); err != nil {
			return err
		}
		puts = puts[n:]
	}
	return b.s.deleteKeys(ctx, b.q, deletes)
}

func (s *Store) deleteKeys(ctx context.Context, q Querier, keys []string) error {
	for chunk := range slices.Chunk(keys, maxRows) {
		args := make([]any, len(chunk))
		for i, k := range chunk {
			args[i] = []byte(k)
		}
		if _, err := q.ExecContext(ctx, "DELETE FROM ringfence_entries WHERE k IN "+s.d.list(len(chunk)), args...); err != nil {
			return err
		}
	}
	return nil
}

func null(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}

// each passes every row of a query to f, by its Scan.
func each(ctx context.Context, q Querier, f func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Column is the one column of a query.
func Column[T any](ctx context.Context, q Querier, query string, args ...any) (all []T, err error) {
	err = each(ctx, q, func(scan func(...any) error) error {
		var x T
		err := scan(&x)
		all = append(all, x)
		return err
	}, query, args...)
	return all, err
}
