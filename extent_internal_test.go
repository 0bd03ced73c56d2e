package ringfence

import (
	"math"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
)

// ledger is a row of offsets that have a record each.
type ledger struct{ from, until int64 }

// ledgers read as a log does that leaves out most offsets: a read far below a ledger finds its start.
func ledgers(list []ledger, size, limit int, reads *int) func(int64, []commitlog.Record) ([]commitlog.Record, int64, error) {
	return func(at int64, recs []commitlog.Record) ([]commitlog.Record, int64, error) {
		*reads++
		for _, l := range list {
			for at = max(at, l.from); at < l.until; at++ {
				if len(recs) == limit {
					return recs, at, nil
				}
				recs = append(recs, commitlog.Record{Offset: at, Value: make([]byte, size)})
			}
		}
		return recs, at, nil
	}
}

func TestASizeIsEstimatedWhateverOffsetsALogLeavesOut(t *testing.T) {
	t.Parallel()
	const size = 100
	for name, list := range map[string][]ledger{
		"dense":           {{0, 100_000}},
		"small":           {{3, 20}},
		"one ledger":      {{24 << 28, 24<<28 + 50_000}},
		"after a gap":     {{24 << 28, 24<<28 + 50_000}, {90 << 28, 90<<28 + 50_000}},
		"unequal ledgers": {{1 << 28, 1<<28 + 1000}, {5 << 28, 5<<28 + 100_000}, {300 << 28, 300<<28 + 10}},
		"four ledgers":    {{1 << 28, 1<<28 + 9000}, {2 << 28, 2<<28 + 9000}, {40 << 28, 40<<28 + 9000}, {41 << 28, 41<<28 + 9000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records, reads := int64(0), 0
			for _, l := range list {
				records += l.until - l.from
			}
			e := extent{Bounds: commitlog.Bounds{Next: list[len(list)-1].until}}
			if err := e.measure(ledgers(list, size, 600, &reads)); err != nil {
				t.Fatal(err)
			}
			near := func(what string, got, want int64) {
				t.Helper()
				if math.Abs(float64(got-want)) > 0.2*float64(records) {
					t.Errorf("%s: %d of %d records; want about %d", what, got, records, want)
				}
			}
			all, bytes := e.count(0, e.Next)
			near("all", all, records)
			near("all, in bytes", bytes/size, records)
			half := e.after(e.bytes / 2)
			below := int64(0)
			for _, l := range list {
				below += max(0, min(half, l.until)-l.from)
			}
			near("half of them", below, records/2)
			counted, _ := e.count(0, half)
			near("counted below the half", counted, records/2)
			if reads > mostReads {
				t.Errorf("%d reads; want %d at most", reads, mostReads)
			}
		})
	}
}
