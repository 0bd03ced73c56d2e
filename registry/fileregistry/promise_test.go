package fileregistry

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/registry/driver"
)

// promise is what the callers of a registry were told, and what may therefore never be seen otherwise.
// Each transaction adds its number to one entry, `log`, that it had read before; so that entry names all
// that were done, in order. Besides it writes or deletes one of a few entries of any size.
type promise struct {
	txns    []promised // by number - 1
	acked   []int      // numbers, in the order in which they were told
	shown   []int      // the longest log that somebody was shown
	rev     uint64     // the highest revision that somebody was shown
	version map[driver.Version]string
}

type promised struct {
	refused error // not nil: certainly not done
	pad     string
	size    int // of its value; 0: deleted
}

const logKey = "log"

// next is the transaction after a view of the log.
func (p *promise) next(log driver.Entry, pad string, size int) (int, driver.Txn) {
	n := len(p.txns) + 1
	p.txns = append(p.txns, promised{pad: pad, size: size})
	txn := driver.Txn{
		Checks: []driver.Check{{Key: logKey, Version: log.Version}},
		Puts:   []driver.Put{{Key: logKey, Value: strconv.AppendInt(append(slices.Clone(log.Value), ' '), int64(n), 10)}},
	}
	if size > 0 {
		txn.Puts = append(txn.Puts, driver.Put{Key: pad, Value: padding(n, size)})
	} else {
		txn.Deletes = []string{pad}
	}
	return n, txn
}

// padding is a value that tells whose it is; no sector of it is zeros or another's.
func padding(n, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", n), size/8+1)[:size]
}

// gave notes the versions that were given out, to whomever: none may come again.
func (p *promise) gave(n int, versions []driver.Version) error {
	for i, v := range versions {
		what := fmt.Sprintf("put %d of transaction %d", i, n)
		if was, ok := p.version[v]; ok {
			return fmt.Errorf("version %q of %s is that of %s", v, what, was)
		}
		p.version[v] = what
	}
	return nil
}

func (p *promise) ack(n int) { p.acked = append(p.acked, n) }

func (p *promise) refuse(n int, err error) { p.txns[n-1].refused = err }

// view is what somebody sees.
type view struct {
	entries []driver.Entry
	rev     uint64
}

func (v *view) log() (log []int, _ driver.Entry) {
	i, ok := slices.BinarySearchFunc(v.entries, logKey, func(e driver.Entry, k string) int { return strings.Compare(e.Key, k) })
	if !ok {
		return nil, driver.Entry{}
	}
	for f := range strings.FieldsSeq(string(v.entries[i].Value)) {
		n, _ := strconv.Atoi(f)
		log = append(log, n)
	}
	return log, v.entries[i]
}

// before is what was promised when somebody began to look.
type before struct {
	acked int
	shown []int
	rev   uint64
}

func (p *promise) begin() before { return before{len(p.acked), p.shown, p.rev} }

// keeps says what is wrong with what is shown to somebody.
func (p *promise) keeps(b before, v *view) error {
	log, _ := v.log()
	if v.rev < b.rev {
		return fmt.Errorf("revision %d is shown after revision %d", v.rev, b.rev)
	}
	if len(log) < len(b.shown) {
		return fmt.Errorf("%v is shown after %v", log, b.shown)
	}
	if n := min(len(log), len(p.shown)); !slices.Equal(log[:n], p.shown[:n]) {
		return fmt.Errorf("%v is shown, and %v was", log, p.shown)
	}
	for _, n := range p.acked[:b.acked] {
		if !slices.Contains(log, n) {
			return fmt.Errorf("transaction %d was acknowledged and is not in %v", n, log)
		}
	}
	want := map[string][]byte{}
	for _, n := range log {
		t := p.txns[n-1]
		if t.refused != nil {
			return fmt.Errorf("transaction %d was refused (%w) and is in %v", n, t.refused, log)
		}
		delete(want, t.pad)
		if t.size > 0 {
			want[t.pad] = padding(n, t.size)
		}
	}
	for _, e := range v.entries {
		if !strings.HasPrefix(e.Key, "pad") {
			continue
		}
		if !bytes.Equal(want[e.Key], e.Value) {
			return fmt.Errorf("%s is of %.8q, expected %.8q after %v", e.Key, e.Value, want[e.Key], log)
		}
		delete(want, e.Key)
	}
	if len(want) > 0 {
		return fmt.Errorf("%d entries are missing after %v", len(want), log)
	}
	if len(log) > len(p.shown) {
		p.shown = log
	}
	p.rev = max(p.rev, v.rev)
	return nil
}
