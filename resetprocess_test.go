package ringfence_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence"
)

// Members are killed as kill -9 does in the middle of three resets, while two keys are parked behind poison.
// Each time all comes again from the beginning, each key in its order; there is one dead letter a poison
// record, and at the end the poisoned keys come through too.
func TestDeliverersKilledInTheMiddleOfResetsLoseNothingAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	const all = 14
	procs := newDeliverers(t, 3, 8, 3)
	rf := procs.rf
	procs.produce(0, all)
	from := 0
	through := func(of func(key string) bool) func() bool {
		return func() bool {
			data := procs.seen()
			for k := range procs.keys {
				key := fmt.Sprintf("k%d", k)
				if got := sinceTheFirst(data[from:], key); of(key) && orderOf(t, got)[key] < all {
					return false
				}
			}
			return true
		}
	}
	behind := func() (n, failed int) {
		letters, err := rf.DeadLetters(t.Context(), "s", nil)
		must(t, err)
		for _, l := range letters {
			if l.Failed {
				failed++
			}
		}
		return len(letters), failed
	}
	for turn := range 3 {
		eventually(t, "all records of the good keys", through(good))
		eventually(t, "the dead letters and all behind them", func() bool {
			n, failed := behind()
			return n == 2*all-poison["k0"]-poison["k1"] && failed == len(poison)
		})
		from = len(procs.seen())
		procs.start()
		_, err := rf.ResetSubscription(t.Context(), "s", ringfence.SeekEarliest, nil)
		must(t, err)
		eventually(t, "the place in the reset where one is killed", func() bool {
			d, err := rf.DescribeSubscription(t.Context(), "s")
			must(t, err)
			return []bool{true, d.Set().Pause > 0, !d.Turning()}[turn] || !d.Turning()
		})
		procs.kill()
		turned(t, rf, "s")
	}
	must(t, os.WriteFile(filepath.Join(procs.dir, "mended"), nil, 0o600))
	eventually(t, "all records", func() bool {
		_, err := rf.Redrive(t.Context(), "s", nil) // those that were given up before it was mended
		must(t, err)
		return through(anyKey)()
	})
	eventually(t, "no dead letter", func() bool { n, _ := behind(); return n == 0 })
}

// sinceTheFirst is what was seen of a key from the last time on that its first record came.
func sinceTheFirst(data []byte, key string) []byte {
	first := fmt.Appendf(nil, "%s 0\n", key)
	at := bytes.LastIndex(data, first)
	if at < 0 {
		return nil
	}
	var out []byte
	for line := range bytes.Lines(data[at:]) {
		if bytes.HasPrefix(line, []byte(key+" ")) {
			out = append(out, line...)
		}
	}
	return out
}
