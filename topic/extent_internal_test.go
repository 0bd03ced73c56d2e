package topic

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

// measured is a log that knows what it holds, and of which each read would take long.
type measured struct {
	driver.Log
	driver.Topic
	stretches []driver.Stretch
}

func (m *measured) OpenTopic(ctx context.Context, name string) (_ driver.Topic, err error) {
	m.Topic, err = m.Log.OpenTopic(ctx, name)
	return m, err
}

func (m *measured) Close() error { return errors.Join(m.Topic.Close(), m.Log.Close()) }

func (m *measured) Bounds(context.Context, int) (driver.Bounds, error) {
	return driver.Bounds{First: 10, Next: 1000}, nil
}

func (m *measured) Measure(context.Context, int) ([]driver.Stretch, error) { return m.stretches, nil }

func (m *measured) Read(context.Context, driver.ReadRequest, []driver.Record) ([]driver.Record, int64, error) {
	return nil, 0, errors.New("it was read")
}

func TestALogThatKnowsItsSizeIsNotRead(t *testing.T) {
	t.Parallel()
	log := commitlog.New(&measured{Log: memlog.NewStore(nil).Driver(), stretches: []driver.Stretch{
		{From: 10, Until: 20, Records: 100, Bytes: 1000}, {From: 900, Until: 1000, Records: 50, Bytes: 3000},
	}})
	if err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	all, err := ExtentsOf(t.Context(), topic, 1, Retention{Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := all[0]
	if e.Bytes != 4000 || e.After(2500) != 950 {
		t.Errorf("%v bytes, half of the second ledger ends at %d; expected 4000 and 950", e.Bytes, e.After(2500))
	}
	if records, bytes := e.Count(15, 950); records != 75 || bytes != 2000 {
		t.Errorf("%d records and %d bytes; expected 75 and 2000", records, bytes)
	}
	if err := topic.Close(); err != nil {
		t.Error(err)
	}
}

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
			e := Extent{Bounds: commitlog.Bounds{Next: list[len(list)-1].until}}
			if err := e.measure(ledgers(list, size, 600, &reads)); err != nil {
				t.Fatal(err)
			}
			near := func(what string, got, want int64) {
				t.Helper()
				if math.Abs(float64(got-want)) > 0.2*float64(records) {
					t.Errorf("%s: %d of %d records; want about %d", what, got, records, want)
				}
			}
			all, bytes := e.Count(0, e.Next)
			near("all", all, records)
			near("all, in bytes", bytes/size, records)
			half := e.After(e.Bytes / 2)
			below := int64(0)
			for _, l := range list {
				below += max(0, min(half, l.until)-l.from)
			}
			near("half of them", below, records/2)
			counted, _ := e.Count(0, half)
			near("counted below the half", counted, records/2)
			if reads > mostReads {
				t.Errorf("%d reads; want %d at most", reads, mostReads)
			}
		})
	}
}
