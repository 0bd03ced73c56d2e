package benchkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/fault"
)

// TestMain lets the test program be its own agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		if err := Agent(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
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

func TestProduceMeasuresCallersAWindowAndSeveralProcesses(t *testing.T) {
	t.Parallel()
	r, err := Produce(t.Context(), ProduceConfig{Common: tiny(t), InFlight: []int{1, 4}, Async: 64})
	check(t, r, err, "raw 4 KiB write + fdatasync", "1 in flight", "4 in flight", "one goroutine, window 64")
	if r.Rows[2].To != "4 x raw 4 KiB write + fdatasync" || r.Rows[2].P99 < r.Rows[2].P50 || r.Rows[2].P50 <= 0 {
		t.Errorf("row %+v", r.Rows[2])
	}
	r, err = Produce(t.Context(), ProduceConfig{Common: tiny(t), InFlight: []int{2, 5}, Processes: 2, Partitions: 3})
	check(t, r, err, "raw 4 KiB write + fdatasync", "1 in flight, one partition, one process", "2 in flight", "5 in flight, one partition, one process", "5 in flight")
	if r.Rows[2].To != r.Rows[1].Name || r.Rows[4].To != r.Rows[3].Name {
		t.Errorf("ratios are to %q and %q", r.Rows[2].To, r.Rows[4].To)
	}
}

func TestConsumeMeasuresReadsAndHandlers(t *testing.T) {
	t.Parallel()
	r, err := Consume(t.Context(), ConsumeConfig{Common: tiny(t), Records: 5000, Interleaved: 4})
	check(t, r, err, "raw pread + CRC32C of as many bytes", "read one partition", "read one of 4 interleaved", "Consume, empty handler")
}

func TestLatencyMeasuresAnotherProcess(t *testing.T) {
	t.Parallel()
	r, err := Latency(t.Context(), LatencyConfig{Common: tiny(t)})
	check(t, r, err, "one raw 4 KiB write + fdatasync, at that rate", "produce to handler, durability os", "produce to handler, durability sync")
}

func TestFailoverMeasuresKillsAndCleanMoves(t *testing.T) {
	t.Parallel()
	r, err := Failover(t.Context(), FailoverConfig{Common: tiny(t), Kills: 2, Leaves: 1, Partitions: 4, Processes: 2, Rate: 400})
	check(t, r, err, "kill -9 to first record of new owner", "kill -9 to the last of its partitions",
		"clean move, last record to first record", "partition that stays, longest gap meanwhile")
	if last := r.Notes[len(r.Notes)-1]; !strings.HasSuffix(last, ": 0") {
		t.Error(last)
	}
}

func TestAssignMeasuresTimeAndMoves(t *testing.T) {
	t.Parallel()
	r, err := Assign(t.Context(), AssignConfig{Common: tiny(t), Units: 100, Members: 10})
	if err != nil || len(r.Rows) != 9 || r.Notes[1] != "sticky, a member joins: 9 units of live members move; at least 9 must" {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestWrongSettingsAreAllReported(t *testing.T) {
	t.Parallel()
	_, err := Produce(t.Context(), ProduceConfig{InFlight: []int{0}, Partitions: -1, Size: -5, Processes: 2})
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
	raw, ours := []float64{1, 10, 20, 10}, []float64{1, 40, 20, 20}
	turn := -1
	c.add("raw", "x", "", 1, func(*histogram) (float64, error) { turn++; return raw[turn], nil })
	c.add("ours", "x", "raw", 2, func(*histogram) (float64, error) { return ours[turn], nil })
	rows, err := c.run(3, func(string, ...any) {})
	if err != nil || rows[1].Ratio != 1 || rows[1].Median != 20 || rows[1].To != "2 x raw" || len(rows[0].Rounds) != 3 {
		t.Errorf("%v, %+v", err, rows)
	}
}
