package pgregistry

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/registry/driver"
)

// An open transaction of another process, perhaps of a stopped one, may keep entries locked. A call waits
// for them for a part of its time only, and then goes around them.
const (
	patienceMax  = 3 * time.Second
	patiencePart = 4
	// patienceSoon is for keys that were free a moment ago.
	patienceSoon = 100 * time.Millisecond
)

// patient completes a statement with the time it waits for a lock: d, but at most a part of the time that
// ctx leaves.
func patient(ctx context.Context, d time.Duration, sql string) string {
	if end, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(end)/patiencePart)
	}
	ms := max(1, d.Milliseconds()) // 0 would be for ever
	return strings.Replace(sql, patienceHere, strconv.FormatInt(ms, 10), 1)
}

// applyAround applies the transactions that touch no locked key, if err, that of all of them, is a lock
// time-out. The others get that error.
func (s *store) applyAround(ctx context.Context, txns []driver.Txn, out []driver.Result, err error) error {
	if code(err) != codeLockTimeout || len(txns) < 2 {
		return err
	}
	locked := s.locked(ctx, txns)
	var free []driver.Txn
	var at []int
	for i := range txns {
		if slices.ContainsFunc(keysOf(&txns[i]), func(k string) bool { return locked[k] }) {
			out[i] = driver.Result{Err: err}
			continue
		}
		free, at = append(free, txns[i]), append(at, i)
	}
	if len(free) == 0 {
		return nil
	}
	results := make([]driver.Result, len(free))
	s.divide(ctx, free, results)
	for i, r := range results {
		out[at[i]] = r
	}
	return nil
}

// divide applies transactions, half by half if one of them has to wait all the same: for a key that was
// locked in between, or that another process is about to make.
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

// locked are the keys of transactions that others hold now; none if the server does not answer.
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
