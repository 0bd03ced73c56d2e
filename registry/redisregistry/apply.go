package redisregistry

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// A call of the script holds up everybody else at the server, for some 3 µs for each transaction.
const (
	chunkTxns  = 512
	chunkBytes = 1 << 20
)

// The answers of the script for a transaction that was refused.
const refusedFenced = -1_000_000

// newID is 64 random bits. As the nonce of a version it keeps one from being given out again by a
// replica that was promoted without having seen it; as a name it is unique for ever.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// chunk is how many of txns go into one call: at least one.
func chunk(txns []driver.Txn) int {
	size := 0
	for i := range txns {
		for j := range txns[i].Puts {
			size += len(txns[i].Puts[j].Value)
		}
		if i > 0 && (i == chunkTxns || size > chunkBytes) {
			return i
		}
	}
	return len(txns)
}

// encode lays transactions out as the script reads them.
func encode(txns []driver.Txn, nonce, sessionPrefix, channel string) []string {
	n := 3
	for i := range txns {
		n += 1 + 2*len(txns[i].Checks) + 3*len(txns[i].Puts) + len(txns[i].Deletes)
	}
	args := append(make([]string, 0, n), nonce, sessionPrefix, channel)
	var shape strings.Builder
	last := ""
	for i := range txns {
		t := &txns[i]
		shape.Reset()
		at := len(args)
		args = append(args, "")
		for _, c := range t.Checks {
			shape.WriteByte('c')
			args = append(args, c.Key, string(c.Version))
		}
		for j := range t.Puts {
			p := &t.Puts[j]
			if p.Session == "" {
				shape.WriteByte('p')
				args = append(args, p.Key, string(p.Value))
			} else {
				shape.WriteByte('b')
				args = append(args, p.Key, string(p.Value), p.Session)
			}
		}
		for _, k := range t.Deletes {
			shape.WriteByte('d')
			args = append(args, k)
		}
		if t.Quiet {
			shape.WriteByte('q')
		}
		if shape.String() != last {
			last = strings.Clone(shape.String())
		}
		args[at] = last
	}
	return args
}

// decodeResults reads the answer of the script.
func decodeResults(txns []driver.Txn, reply []int64, nonce string) ([]driver.Result, error) {
	if len(reply) != len(txns) {
		return nil, fmt.Errorf("redis registry: %d answers to %d transactions: %w", len(reply), len(txns), fault.Unknown)
	}
	results := make([]driver.Result, len(txns))
	for i, n := range reply {
		t, r := &txns[i], &results[i]
		switch {
		case n >= 0:
			r.Versions = make([]driver.Version, len(t.Puts))
			for j := range r.Versions {
				r.Versions[j] = version(n+int64(j)+1, nonce)
			}
		case n == refusedFenced:
			r.Err = fmt.Errorf("redis registry: the session of a put has ended; open a new one: %w", driver.ErrFenced)
		default:
			r.Failed = int(-1 - n)
			r.Err = conflict(t, r.Failed)
		}
	}
	return results, nil
}

func conflict(t *driver.Txn, failed int) error {
	if failed >= len(t.Checks) {
		return fmt.Errorf("redis registry: check %d of %d failed: %w", failed, len(t.Checks), fault.Corrupt)
	}
	c := t.Checks[failed]
	if c.Version == "" {
		return fmt.Errorf("key %q is there, expected none: %w", c.Key, driver.ErrConflict)
	}
	return fmt.Errorf("key %q has another version than %q: %w", c.Key, c.Version, driver.ErrConflict)
}

// cutVersion divides what the store keeps beside a value: "version" or "version session".
func cutVersion(raw string) (driver.Version, string) {
	v, session, _ := strings.Cut(raw, " ")
	return driver.Version(v), session
}
