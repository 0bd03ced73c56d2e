package pgregistry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry/driver"
)

// One call is one request, or a few if it is large, and the server decides about each transaction by
// itself. Checkpoints, which are nearly all there is, have a form of their own (plain): arrays of keys and
// versions for commit_1 (schema.sql). All others, and checkpoints that commit_1 did not apply because a
// check failed or the key is new, go through apply_1, which reports the outcome of each. A request that the
// server rolled back for the sake of others is sent again. If an answer is lost, its transactions and
// all behind them are unknown.

// A larger call is divided into several requests.
const (
	chunkTxns  = 2000
	chunkBytes = 8 << 20
)

// retries bounds how often a request is repeated that the server rolled back for a deadlock.
const retries = 10

// Apply implements driver.Registry.
func (s *store) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	out := make([]driver.Result, len(txns))
	for from := 0; from < len(txns); {
		to := from + chunk(txns[from:])
		if err := s.applyChunk(ctx, txns[from:to], out[from:to]); err != nil {
			if from == 0 && !errors.Is(err, driver.ErrUnknown) {
				return nil, err
			}
			for i := from; i < len(out); i++ {
				if out[i] = (driver.Result{Err: err}); !errors.Is(err, driver.ErrUnknown) {
					out[i].Err = fmt.Errorf("%w: %w", driver.ErrUnknown, err)
				}
			}
			break
		}
		from = to
	}
	return out, nil
}

// chunk is how many of txns go into one request.
func chunk(txns []driver.Txn) int {
	size := 0
	for i := range txns {
		for _, p := range txns[i].Puts {
			size += len(p.Value)
		}
		if i > 0 && (i == chunkTxns || size > chunkBytes) {
			return i
		}
	}
	return len(txns)
}

// applyChunk fills out. Its error is that of all transactions.
func (s *store) applyChunk(ctx context.Context, txns []driver.Txn, out []driver.Result) error {
	if !plain(txns) {
		return s.applyAny(ctx, txns, out)
	}
	done, err := s.commit(ctx, txns, out)
	if err != nil || done == len(txns) {
		return s.applyAround(ctx, txns, out, err)
	}
	// The rest was refused, or writes a new key. It touches nothing that the others touched, so their
	// order does not matter.
	var rest []driver.Txn
	var at []int
	for i := range out {
		if out[i].Versions == nil {
			rest, at = append(rest, txns[i]), append(at, i)
		}
	}
	more := make([]driver.Result, len(rest))
	if err := s.applyAny(ctx, rest, more); err != nil {
		if done == 0 {
			return err
		}
		for i := range more {
			more[i].Err = fmt.Errorf("%w: %w", driver.ErrUnknown, err)
		}
	}
	for i, r := range more {
		out[at[i]] = r
	}
	return nil
}

// plain reports whether all transactions have the form of checkpoints: one unbound put, under a check of
// another key and perhaps of its own version, and no key in common.
func plain(txns []driver.Txn) bool {
	if len(txns) == 1 && !txns[0].Quiet {
		return false
	}
	written := make(map[string]bool, len(txns))
	for i := range txns {
		t := &txns[i]
		if !t.Quiet || len(t.Puts) != 1 || len(t.Deletes) > 0 || len(t.Checks) == 0 || len(t.Checks) > 2 {
			return false
		}
		put, own := &t.Puts[0], t.Checks[len(t.Checks)-1]
		if put.Session != "" || t.Checks[0].Version == "" || written[put.Key] ||
			len(t.Checks) == 2 && (own.Key != put.Key || own.Version == "") {
			return false
		}
		written[put.Key] = true
	}
	for i := range txns {
		if written[txns[i].Checks[0].Key] {
			return false
		}
	}
	return true
}

// commit applies plain transactions. It returns how many, and fills in the versions of those.
func (s *store) commit(ctx context.Context, txns []driver.Txn, out []driver.Result) (int, error) {
	a, news := checkpoints(s.ids, txns)
	done, err := s.write(ctx, patienceMax, a, s.q.commit)
	if err != nil {
		return 0, err
	}
	for _, i := range done {
		out[i-1].Versions = []driver.Version{driver.Version(id{news[i-1]}.text())}
	}
	return len(done), nil
}

// checkpoints are plain transactions as the arguments of commit_1, and the versions that they give.
func checkpoints(m *idSource, txns []driver.Txn) (a *args, news []pgtype.UUID) {
	n := len(txns)
	checked, keys, values := make([]string, n), make([]string, n), make([][]byte, n)
	versions, afters := make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	news = make([]pgtype.UUID, n)
	for i := range txns {
		t := &txns[i]
		checked[i], versions[i] = t.Checks[0].Key, expected(t.Checks[0].Version)
		keys[i], values[i], news[i] = t.Puts[0].Key, t.Puts[0].Value, m.next()
		if len(t.Checks) == 2 {
			afters[i] = expected(t.Checks[1].Version)
		}
	}
	a = &args{}
	bytea(a, checked)
	a.uuids(versions)
	bytea(a, keys)
	bytea(a, values)
	a.uuids(news)
	a.uuids(afters)
	return a, news
}

// applyAny applies transactions of any form.
func (s *store) applyAny(ctx context.Context, txns []driver.Txn, out []driver.Result) error {
	return s.applyAround(ctx, txns, out, s.applyBy(ctx, patienceMax, txns, out))
}

// applyBy applies transactions by one call of apply_1.
func (s *store) applyBy(ctx context.Context, patience time.Duration, txns []driver.Txn, out []driver.Result) error {
	b := newBatch(s.ids, txns)
	fates, err := s.write(ctx, patience, b.args(), s.q.apply)
	if err != nil {
		return err
	}
	at := 0
	for i, fate := range fates {
		news := b.pu[at : at+len(txns[i].Puts)]
		at += len(news)
		out[i] = result(&txns[i], fate, news)
	}
	if s.pooled { // no notifications come, and the poll is slow
		s.watches.Changed(b.keys...)
	}
	return nil
}

func result(t *driver.Txn, fate int32, news []pgtype.UUID) (r driver.Result) {
	switch {
	case fate > 0:
		r.Failed = int(fate) - 1
		r.Err = fmt.Errorf("key %q does not have the version %q that was expected: %w", t.Checks[r.Failed].Key, t.Checks[r.Failed].Version, driver.ErrConflict)
	case fate < 0:
		r.Err = fmt.Errorf("put of key %q: its session has ended; open a new one: %w", t.Puts[0].Key, driver.ErrFenced)
	default:
		r.Versions = make([]driver.Version, len(news))
		for i, v := range news {
			r.Versions[i] = driver.Version(id{v}.text())
		}
	}
	return r
}

// write sends a request that changes the store. It sends it again if the server rolled it back for the
// sake of others, and returns ErrUnknown if its outcome is not known. It waits for a lock for patience,
// or less if there is little time.
func (s *store) write(ctx context.Context, patience time.Duration, a *args, sql string) (answer []int32, err error) {
	for try := 1; ; try++ {
		sent := false
		err := s.do(ctx, func(c *pgx.Conn) (err error) {
			sent = true
			text := patient(ctx, patience, sql)
			hook.Sent(ctx, func(ctx context.Context) error {
				return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return a.exec(ctx, c.Conn(), text).Err })
			})
			answer, err = a.call(ctx, c, text)
			return err
		})
		switch {
		case err == nil || !sent:
			return answer, err
		case again(err) && try < retries && ctx.Err() == nil:
		case untouched(err):
			return nil, s.refused("apply", err)
		default:
			return nil, fmt.Errorf("postgres registry: apply: %w: %w", driver.ErrUnknown, err)
		}
	}
}

// batch is a list of transactions as the arguments of apply_1.
type batch struct {
	loud       []bool
	keys       []string // that loud ones change
	ct, pt, dt []int32
	ck, pk, dk []string
	cv, pu, ps []pgtype.UUID
	pv         [][]byte
}

func newBatch(m *idSource, txns []driver.Txn) *batch {
	b := &batch{}
	for i := range txns {
		b.add(m, int32(i+1), &txns[i]) //nolint:gosec // a chunk is small
	}
	return b
}

func (b *batch) add(m *idSource, n int32, t *driver.Txn) {
	b.loud = append(b.loud, !t.Quiet)
	for _, c := range t.Checks {
		b.ct, b.ck, b.cv = append(b.ct, n), append(b.ck, c.Key), append(b.cv, expected(c.Version))
	}
	for _, p := range t.Puts {
		b.pt, b.pk, b.pv = append(b.pt, n), append(b.pk, p.Key), append(b.pv, p.Value)
		b.pu, b.ps = append(b.pu, m.next()), append(b.ps, expected(driver.Version(p.Session)))
		if !t.Quiet {
			b.keys = append(b.keys, p.Key)
		}
	}
	for _, k := range t.Deletes {
		b.dt, b.dk = append(b.dt, n), append(b.dk, k)
		if !t.Quiet {
			b.keys = append(b.keys, k)
		}
	}
}

// expected is a version, or a session, of the caller: null for none, and noID for a malformed one.
func expected(v driver.Version) pgtype.UUID {
	if v == "" {
		return pgtype.UUID{}
	}
	if x, ok := parse(string(v)); ok {
		return x
	}
	return noID()
}

func (b *batch) args() *args {
	a := &args{}
	a.bools(b.loud)
	a.text(b.payload())
	a.ints(b.ct)
	bytea(a, b.ck)
	a.uuids(b.cv)
	a.ints(b.pt)
	bytea(a, b.pk)
	bytea(a, b.pv)
	a.uuids(b.pu)
	a.uuids(b.ps)
	a.ints(b.dt)
	bytea(a, b.dk)
	return a
}

// A notification says whether sessions changed ("s" or "-"), and after a blank which keys: in
// base64, divided by blanks, or "*" for too many. The server takes fewer than 8000 bytes.
const (
	payloadMax = 7900
	anyKey     = "*"
)

// payload is what watchers are told.
func (b *batch) payload() string {
	parts := make([]string, 0, len(b.keys))
	size := 2
	for _, k := range b.keys {
		parts = append(parts, base64.StdEncoding.EncodeToString([]byte(k)))
		size += 1 + len(parts[len(parts)-1])
		if size > payloadMax {
			return "- " + anyKey
		}
	}
	return "- " + strings.Join(parts, " ")
}

// heard reads a notification; all is true when any key may have changed.
func heard(payload string) (sessions bool, keys []string, all bool) {
	kind, list, _ := strings.Cut(payload, " ")
	for part := range strings.FieldsSeq(list) {
		key, err := base64.StdEncoding.DecodeString(part)
		if err != nil { // anyKey, or a message of a newer version
			return true, nil, true
		}
		keys = append(keys, string(key))
	}
	return kind == "s", keys, false
}
