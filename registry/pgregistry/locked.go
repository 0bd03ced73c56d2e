package pgregistry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/registry/driver"
)

// Somebody's open transaction, perhaps that of a process that was stopped, may keep entries
// locked. A call waits for them for a part of its time only, then goes around them.
const (
	patienceMax  = 3 * time.Second
	patiencePart = 4
	// patienceSoon is for keys that were just seen to be free.
	patienceSoon = 100 * time.Millisecond
)

// patient completes a statement that says how long it waits for a lock: for d, but for no more
// than a part of the time that ctx leaves.
func patient(ctx context.Context, d time.Duration, sql string) string {
	if end, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(end)/patiencePart)
	}
	ms := max(1, d.Milliseconds()) // 0 would be for ever
	return strings.Replace(sql, patienceHere, strconv.FormatInt(ms, 10), 1)
}

// applyAround applies those transactions that touch no locked key. The others get the error of
// the wait for a lock that ended.
func (s *store) applyAround(ctx context.Context, txns []driver.Txn, out []driver.Result, waited error) {
	locked := s.locked(ctx, txns)
	var free []driver.Txn
	var at []int
	for i := range txns {
		if slices.ContainsFunc(keysOf(&txns[i]), func(k string) bool { return locked[k] }) {
			out[i] = driver.Result{Err: waited}
			continue
		}
		free, at = append(free, txns[i]), append(at, i)
	}
	if len(free) == 0 {
		return
	}
	results := make([]driver.Result, len(free))
	s.divide(ctx, free, results)
	for i, r := range results {
		out[at[i]] = r
	}
}

// divide applies transactions, part by part when one of them has to wait all the same: for a key
// that was locked in between, or for one that somebody is about to make.
func (s *store) divide(ctx context.Context, txns []driver.Txn, out []driver.Result) {
	err := s.applyBy(ctx, patienceSoon, txns, out)
	if half := len(txns) / 2; half > 0 && code(err) == codeLockTimeout {
		s.divide(ctx, txns[:half], out[:half])
		s.divide(ctx, txns[half:], out[half:])
		return
	}
	if err != nil {
		for i := range out {
			out[i] = driver.Result{Err: err}
		}
	}
}

// locked are the keys of transactions that others hold now; none when nobody can say.
func (s *store) locked(ctx context.Context, txns []driver.Txn) map[string]bool {
	var keys []string
	for i := range txns {
		keys = append(keys, keysOf(&txns[i])...)
	}
	slices.Sort(keys)
	a := &args{}
	bytea(a, slices.Compact(keys))
	held := make(map[string]bool)
	_ = s.do(ctx, func(c *pgx.Conn) error {
		r := a.exec(ctx, c, s.q.locked)
		for _, row := range r.Rows {
			if len(row) != 1 {
				return fmt.Errorf("a row of %d columns; expected one key: %w", len(row), errAnswer)
			}
			held[string(row[0])] = true
		}
		return r.Err
	})
	return held
}

func keysOf(t *driver.Txn) []string {
	keys := slices.Clone(t.Deletes)
	for _, c := range t.Checks {
		keys = append(keys, c.Key)
	}
	for _, p := range t.Puts {
		keys = append(keys, p.Key)
	}
	return keys
}
