package benchkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

// TestMain lets the test program be its own agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		if err := Agent(context.Background(), Stores{}, os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func tiny(t *testing.T) Common {
	return Common{Dir: t.TempDir(), Rounds: 2, For: 50 * time.Millisecond, Command: []string{os.Args[0], "agent"}, Logf: t.Logf}
}

// check demands a figure above zero in each row, and that the rows are the ones named.
func check(t *testing.T, r *Result, err error, rows ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name)
		if row.Median <= 0 || row.Min > row.Median || row.Median > row.Max || row.To != "" && row.Ratio <= 0 {
			t.Errorf("row %+v", row)
		}
	}
	if !slices.Equal(names, rows) {
		t.Errorf("rows are %q; expected %q", names, rows)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Error(err)
	}
	for _, name := range rows {
		if !strings.Contains(text.String(), name) {
			t.Errorf("%q is not in the text:\n%s", name, &text)
		}
	}
}

func names(figures []Figure) []string {
	var all []string
	for _, f := range figures {
		all = append(all, f.Name)
	}
	return all
}

func TestProduceMeasuresCallersAWindowAndSeveralProcesses(t *testing.T) {
	t.Parallel()
	r, err := Produce(t.Context(), ProduceConfig{Common: tiny(t), InFlight: []int{1, 4}, Async: 64})
	check(t, r, err, "raw 4 KiB write + fdatasync", "1 in flight", "4 in flight", "one goroutine, window 64")
	if r.Rows[2].To != "4 x raw 4 KiB write + fdatasync" || r.Rows[2].P99 < r.Rows[2].P50 || r.Rows[2].P50 <= 0 {
		t.Errorf("row %+v", r.Rows[2])
	}
	if got := names(r.Figures); len(got) != 1 || got[0] != "durable, 1 in flight, of a raw write + fdatasync" {
		t.Errorf("figures %q", got)
	}
	r, err = Produce(t.Context(), ProduceConfig{Common: tiny(t), InFlight: []int{2, 5}, Processes: 2, Partitions: []int{3}})
	check(t, r, err, "raw 4 KiB write + fdatasync", "1 in flight, one partition, one process", "2 in flight, 3 partitions, 2 processes",
		"5 in flight, one partition, one process", "5 in flight, 3 partitions, 2 processes")
	if r.Rows[2].To != r.Rows[1].Name || r.Rows[4].To != r.Rows[3].Name {
		t.Errorf("ratios are to %q and %q", r.Rows[2].To, r.Rows[4].To)
	}
}

func TestProduceComparesPartitionsWithOneAndLargeRecordsWithTheBandwidth(t *testing.T) {
	t.Parallel()
	r, err := Produce(t.Context(), ProduceConfig{Common: tiny(t), InFlight: []int{256}, Partitions: []int{16, 64}, Async: -1})
	check(t, r, err, "raw 4 KiB write + fdatasync", "256 in flight, one partition, one process", "256 in flight, 16 partitions", "256 in flight, 64 partitions")
	if len(r.Figures) != 4 || r.Figures[0].Need != 0.85 || r.Figures[1].Need != 2 || !r.Figures[1].AtMost || r.Figures[2].Need != 0.75 {
		t.Errorf("figures %+v", r.Figures)
	}
	r, err = Produce(t.Context(), ProduceConfig{Common: tiny(t), InFlight: []int{}, Size: 1024, Async: 64})
	check(t, r, err, "raw 4 KiB write + fdatasync", "raw 1 MiB writes + fdatasync, in records", "one goroutine, window 64")
	if len(r.Figures) != 1 || r.Figures[0].Need != 0.8 || r.Figures[0].Median != r.Rows[2].Ratio {
		t.Errorf("figures %+v, ratio %v", r.Figures, r.Rows[2].Ratio)
	}
}

func TestConsumeMeasuresReadsAndHandlers(t *testing.T) {
	t.Parallel()
	r, err := Consume(t.Context(), ConsumeConfig{Common: tiny(t), Records: 5000, Interleaved: 4, Partitions: 3})
	check(t, r, err, "raw pread + CRC32C of as many bytes", "read one partition", "read one of 4 interleaved",
		"Consume, empty handler, 1 partition", "Consume, empty handler, 3 partitions")
}

func TestLatencyMeasuresAnotherProcess(t *testing.T) {
	t.Parallel()
	r, err := Latency(t.Context(), LatencyConfig{Common: tiny(t)})
	check(t, r, err, "one raw 4 KiB write + fdatasync, at that rate", "produce to handler, durability os", "produce to handler, durability sync")
}

func TestRegistryMeasuresCheckpointsAndWhatOthersSee(t *testing.T) {
	t.Parallel()
	r, err := Registry(t.Context(), RegistryConfig{Common: tiny(t), Units: 64, Batch: 16})
	check(t, r, err, "fenced checkpoints, 16 a call, 4 callers", "fenced checkpoints, one a call, one caller",
		"a session's entry comes, seen by another process", "a session closes, seen by another process")
}

func TestMeasurementsOfADirectoryRefuseOtherStores(t *testing.T) {
	t.Parallel()
	c := tiny(t)
	c.Stores.Registry = "postgres://localhost/rf"
	_, reopen := Reopen(t.Context(), ReopenConfig{Common: c})
	_, memory := Memory(t.Context(), MemoryConfig{Common: c})
	_, all := All(t.Context(), AllConfig{Common: c})
	for _, err := range []error{reopen, memory, all} {
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("error %v", err)
		}
	}
}

func TestReopenKillsTheWriterAndTimesTheNextOne(t *testing.T) {
	t.Parallel()
	r, err := Reopen(t.Context(), ReopenConfig{Common: tiny(t), Records: 3000})
	check(t, r, err, "reopen after kill -9 with 300 records", "reopen after kill -9 with 3,000 records")
	if got := names(r.Figures); len(got) != 2 {
		t.Errorf("figures %q", got)
	}
}

func TestFailoverMeasuresKillsAndCleanMoves(t *testing.T) {
	t.Parallel()
	r, err := Failover(t.Context(), FailoverConfig{Common: tiny(t), Kills: 2, Leaves: 1, Partitions: 4, Processes: 2, Rate: 400})
	check(t, r, err, "kill -9 to first record of new owner", "kill -9 to the last of its partitions", "clean move, last record to first record",
		"partition that stays, longest gap while others move", "the same partition, as long a time without moves")
	for _, f := range r.Figures {
		if f.Need == 0 && !f.OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestIdleMeasuresProcessorTime(t *testing.T) {
	t.Parallel()
	r, err := Idle(t.Context(), IdleConfig{Common: tiny(t), Partitions: 4, Processes: 2})
	check(t, r, err, "an idle group")
}

// Four producer processes, one of them stopped by a signal over a switch: nothing is lost, doubled
// or out of order. How long they stand still is a matter of the machine.
func TestSwitchesKeepTheOrderOfStoppedProducersToo(t *testing.T) {
	t.Parallel()
	c := tiny(t)
	c.Rounds, c.For = 2, 100*time.Millisecond
	r, err := Switch(t.Context(), SwitchConfig{Common: c, Partitions: 4, Keys: 10, Durability: ringfence.OS})
	check(t, r, err, "pause of a producer", "pause of the slowest one")
	if f := r.Figures[1]; !f.OK {
		t.Errorf("%+v", f)
	}
}

func TestMemoryMeasuresWholeProcesses(t *testing.T) {
	t.Parallel()
	r, err := Memory(t.Context(), MemoryConfig{Common: tiny(t), Records: 1000, Partitions: []int{2}})
	check(t, r, err, "Consume 1,000 records, in the second tenth", "the same run, in the last tenth", "open log, 2 active partitions, 20 records", "open log, 2 active partitions, 200 records")
}

func TestAssignMeasuresTimeAndMoves(t *testing.T) {
	t.Parallel()
	r, err := Assign(t.Context(), AssignConfig{Common: tiny(t), Units: 100, Members: 10})
	if err != nil || len(r.Rows) != 9 || r.Notes[1] != "sticky, a member joins: 9 units of live members move; at least 9 must" || r.Missed() != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestWrongSettingsAreAllReported(t *testing.T) {
	t.Parallel()
	_, err := Produce(t.Context(), ProduceConfig{InFlight: []int{0}, Partitions: []int{-1}, Size: -5, Processes: 2})
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("Produce returned %v", err)
	}
	for _, part := range []string{"--in-flight is 0", "--partitions is -1", "--size is -5", "needs a program"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestHistogramQuantilesAreWithinThreePercent(t *testing.T) {
	t.Parallel()
	var h, all histogram
	var values []time.Duration
	for range 10000 {
		d := time.Duration(1 + rand.ExpFloat64()*1e6)
		values = append(values, d)
		h.add(d)
	}
	all.merge(h.sparse())
	slices.Sort(values)
	for _, q := range []float64{0.5, 0.9, 0.99, 1} {
		want := float64(values[min(len(values)-1, int(q*float64(len(values))))]) / 1e3
		if got := all.micros(q); got < want*0.96 || got > want*1.04 {
			t.Errorf("quantile %g is %g µs; expected %g", q, got, want)
		}
	}
	for _, ns := range []uint64{0, 1, 31, 32, 33, 1000, 1 << 40} {
		if low := lowest(bucketOf(ns)); low > ns || float64(ns-low) > float64(ns)/32 {
			t.Errorf("%d ns is in the bucket from %d", ns, low)
		}
	}
}

func TestRatiosAreMediansOverRounds(t *testing.T) {
	t.Parallel()
	var c contest
	series := func(values ...float64) func(*histogram) (float64, error) {
		turn := -1
		return func(h *histogram) (float64, error) {
			turn++
			h.add(time.Duration(values[turn]) * time.Microsecond)
			return values[turn], nil
		}
	}
	raw := c.add("raw", "x", "", 1, series(1, 10, 20, 10))
	ours := c.add("ours", "x", "raw", 2, series(1, 40, 20, 20))
	ours.ratioAtLeast("ratio", 1)
	ours.atMost("value", 19)
	ours.p99AtMost("p99", 2, raw)
	rows, figures, err := c.run(3, func(string, ...any) {})
	if err != nil || rows[1].Ratio != 1 || rows[1].Median != 20 || rows[1].To != "2 x raw" || len(rows[0].Rounds) != 3 {
		t.Errorf("%v, %+v", err, rows)
	}
	if f := figures[0]; f.Median != 1 || f.Min != 0.5 || f.Max != 2 || !f.OK {
		t.Errorf("%+v", f)
	}
	if f := figures[1]; f.Median != 20 || f.OK {
		t.Errorf("%+v", f)
	}
	if f := figures[2]; f.Median < 1.9 || f.Median > 2.1 || f.Unit != "x" {
		t.Errorf("%+v", f)
	}
}

func TestTurnsShiftFromRoundToRound(t *testing.T) {
	t.Parallel()
	var c contest
	order := ""
	for _, name := range []string{"a", "b", "c"} {
		c.add(name, "x", "", 1, func(*histogram) (float64, error) { order += name; return 1, nil })
	}
	if _, _, err := c.run(3, func(string, ...any) {}); err != nil || order != "abc"+"abc"+"bca"+"cab" {
		t.Errorf("%v, %s", err, order)
	}
}

func TestAFigureIsMissedWhenItIsNotReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series []float64
		need   float64
		atMost bool
		ok     bool
	}{
		{[]float64{1, 2, 3}, 2, false, true},
		{[]float64{1, 2, 3}, 2, true, true},
		{[]float64{1, 2, 3}, 2.5, false, false},
		{[]float64{1, 2, 3}, 1.5, true, false},
		{[]float64{0}, 0, true, true},
		{[]float64{math.NaN()}, 0, true, false},
		{nil, 1, true, false},
	} {
		if f := newFigure("f", "x", c.series, c.need, c.atMost); f.OK != c.ok {
			t.Errorf("%+v of %v: expected ok %t", f, c.series, c.ok)
		}
	}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	if f := tail("p99", hundred, 99); f.Median != 99 || !f.OK {
		t.Errorf("%+v", f)
	}
	if f := total("count", []float64{0, 0, 1, 0}); f.OK {
		t.Errorf("one interruption in four looks is passed: %+v", f)
	}
}

func TestTablesLeaveOutEmptyColumnsAndTrailingBlanks(t *testing.T) {
	t.Parallel()
	s := Summary{About: "x", Figures: []Figure{newFigure("speed", "x", []float64{1}, 2, false), newFigure("pause", "ms", []float64{1}, 2, true)},
		Results: []*Result{{Bench: "b", About: "y", Rows: []Row{{Name: "row", Unit: "ms", Median: 1234, Min: 1, Max: 2000}}}}}
	var text strings.Builder
	if err := s.Text(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasSuffix(line, " \n") {
			t.Errorf("%q ends with a blank", line)
		}
	}
	for _, want := range []string{"1,234", "≥ 2.00    MISSED", "≤ 2.00    ok", "1 of 2 figures are as promised"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "p99") {
		t.Errorf("an empty column is shown:\n%s", text.String())
	}
}
