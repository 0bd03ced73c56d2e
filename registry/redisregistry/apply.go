package redisregistry

import (
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// A call of the script blocks all others at the server, for some µs a transaction. So calls are chunked.
const (
	chunkTxns  = 256
	chunkBytes = 1 << 20
)

// refusedFenced is the script's answer to a put whose session has ended.
const refusedFenced = -1_000_000

// chunk is how many of txns go into one call, at least one.
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

// shape is what transactions of one run have in common.
type shape struct {
	checks, puts, deletes int
	quiet                 bool
}

func shapeOf(t *driver.Txn) shape {
	return shape{checks: len(t.Checks), puts: len(t.Puts), deletes: len(t.Deletes), quiet: t.Quiet}
}

func (s shape) args(count int) []string {
	quiet := "0"
	if s.quiet {
		quiet = "1"
	}
	return []string{strconv.Itoa(count), strconv.Itoa(s.checks), strconv.Itoa(s.puts), strconv.Itoa(s.deletes), quiet}
}

// encode lays transactions out as the script reads them.
func encode(txns []driver.Txn, nonce, sessionPrefix, channel string) []string {
	n, size := 3, 0
	for i := range txns {
		t := &txns[i]
		n += 5 + 2*len(t.Checks) + 2*len(t.Puts) + len(t.Deletes)
		for j := range t.Puts {
			size += contentBytes(&t.Puts[j])
		}
	}
	args := append(make([]string, 0, n), nonce, sessionPrefix, channel)
	room := make([]byte, 0, size) // for all contents: one allocation
	for len(txns) > 0 {
		run, s := 1, shapeOf(&txns[0])
		for run < len(txns) && shapeOf(&txns[run]) == s {
			run++
		}
		args = append(args, s.args(run)...)
		for i := range txns[:run] {
			t := &txns[i]
			for _, c := range t.Checks {
				args = append(args, c.Key, string(c.Version))
			}
			for j := range t.Puts {
				from := len(room)
				room = appendContent(room, &t.Puts[j])
				args = append(args, t.Puts[j].Key, rueidis.BinaryString(room[from:])) // it is not written any more
			}
			args = append(args, t.Deletes...)
		}
		txns = txns[run:]
	}
	return args
}

// decodeResults reads the answer of the script.
func decodeResults(txns []driver.Txn, reply []int64, nonce string) ([]driver.Result, error) {
	if len(reply) != len(txns) {
		return nil, fmt.Errorf("redis registry: %d answers to %d transactions: %w", len(reply), len(txns), fault.Unknown)
	}
	results := make([]driver.Result, len(txns))
	puts := 0
	for i := range txns {
		puts += len(txns[i].Puts)
	}
	versions := make([]driver.Version, puts) // of all: one allocation
	last := int64(-1)
	var v driver.Version
	for i, n := range reply {
		t, r := &txns[i], &results[i]
		switch {
		case n >= 0:
			if n != last {
				last, v = n, version(n, nonce)
			}
			r.Versions, versions = versions[:len(t.Puts):len(t.Puts)], versions[len(t.Puts):]
			for j := range r.Versions {
				r.Versions[j] = v
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
