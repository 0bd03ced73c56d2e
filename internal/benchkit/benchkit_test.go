package benchkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/measure"
)

// TestMain lets the test program be its own agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		stores := Stores{Log: os.Getenv(logVariable), Registry: os.Getenv(registryVariable), Namespace: os.Getenv(namespaceVariable)}
		if err := Agent(context.Background(), stores, os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// measured runs one tiny measurement.
func measured(t *testing.T, m measurement, change ...func(*Bench)) (*measure.Report, error) {
	b := &Bench{Name: "test", measurement: m, Common: Common{Dir: t.TempDir(), Rounds: 2, For: 50 * time.Millisecond, Command: []string{os.Args[0], "agent"}, Logf: t.Logf}}
	for _, f := range change {
		f(b)
	}
	return b.Run(t.Context())
}

// checked demands a figure above zero in each row, and that the rows are the ones named.
func checked(t *testing.T, m measurement, rows ...string) *measure.Report {
	t.Helper()
	r, err := measured(t, m)
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
	return r
}

func names(figures []measure.Figure) []string {
	var all []string
	for _, f := range figures {
		all = append(all, f.Name)
	}
	return all
}

func TestProduceMeasuresCallersAWindowAndSeveralProcesses(t *testing.T) {
	t.Parallel()
	r := checked(t, &produce{InFlight: []int{1, 4}, Async: 64}, "raw 4 KiB write + fdatasync", "1 in flight", "4 in flight", "one goroutine, window 64")
	if r.Rows[2].To != "4 x raw 4 KiB write + fdatasync" || r.Rows[2].P99 < r.Rows[2].P50 || r.Rows[2].P50 <= 0 {
		t.Errorf("row %+v", r.Rows[2])
	}
	if got := names(r.Figures); len(got) != 1 || got[0] != "durable, 1 in flight, of a raw write + fdatasync" {
		t.Errorf("figures %q", got)
	}
	r = checked(t, &produce{InFlight: []int{2, 5}, Processes: 2, Partitions: []int{3}},
		"raw 4 KiB write + fdatasync", "1 in flight, one partition, one process", "2 in flight, 3 partitions, 2 processes",
		"5 in flight, one partition, one process", "5 in flight, 3 partitions, 2 processes")
	if r.Rows[2].To != r.Rows[1].Name || r.Rows[4].To != r.Rows[3].Name {
		t.Errorf("ratios are to %q and %q", r.Rows[2].To, r.Rows[4].To)
	}
}

func TestProduceComparesPartitionsWithOneAndLargeRecordsWithTheBandwidth(t *testing.T) {
	t.Parallel()
	r := checked(t, &produce{InFlight: []int{256}, Partitions: []int{16, 64}, Async: -1},
		"raw 4 KiB write + fdatasync", "256 in flight, one partition, one process", "256 in flight, 16 partitions", "256 in flight, 64 partitions")
	if len(r.Figures) != 4 || r.Figures[0].Need != 0.85 || r.Figures[1].Need != 2 || !r.Figures[1].AtMost || r.Figures[2].Need != 0.75 {
		t.Errorf("figures %+v", r.Figures)
	}
	r = checked(t, &produce{InFlight: []int{}, Size: 1024, Async: 64},
		"raw 4 KiB write + fdatasync", "raw 1 MiB writes + fdatasync, in records", "one goroutine, window 64")
	if len(r.Figures) != 1 || r.Figures[0].Need != 0.8 || r.Figures[0].Median != r.Rows[2].Ratio {
		t.Errorf("figures %+v, ratio %v", r.Figures, r.Rows[2].Ratio)
	}
}

func TestConsumeMeasuresReadsAndHandlers(t *testing.T) {
	t.Parallel()
	checked(t, &consume{Records: 5000, Interleaved: 4, Partitions: 3},
		"raw pread + CRC32C of as many bytes", "read one partition", "read one of 4 interleaved",
		"Consume, empty handler, 1 partition", "Consume, empty handler, 3 partitions")
}

func TestLatencyMeasuresAnotherProcess(t *testing.T) {
	t.Parallel()
	checked(t, &latency{}, "one raw 4 KiB write + fdatasync, at that rate", "produce to handler, durability os", "produce to handler, durability sync")
}

// Both consumers are in one namespace of the stores that were named, and nothing is left there.
func TestLatencyMeasuresNamedStoresAndLeavesNothing(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	var b *Bench
	r, err := measured(t, &latency{}, func(own *Bench) { b = own; b.Log, b.Registry = url+"/log", url+"/registry" })
	if err != nil || len(r.Rows) != 3 || !strings.HasSuffix(r.About, ", log file, registry file") {
		t.Fatalf("%v, %+v", err, r)
	}
	err = measure.Try(func(s *measure.Script) {
		rf := b.Stores.open(t.Context(), s, "", ringfence.OS)
		topics, groups := must(rf.Topics(t.Context())), must(rf.Groups(t.Context()))
		if len(topics)+len(groups) > 0 || b.Namespace == "" {
			t.Errorf("topics %v and groups %v are left in namespace %q", topics, groups, b.Namespace)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRegistryMeasuresCheckpointsAndWhatOthersSee(t *testing.T) {
	t.Parallel()
	checked(t, &checkpoints{Units: 64, Batch: 16},
		"fenced checkpoints, 16 a call, 4 callers", "fenced checkpoints, one a call, one caller",
		"a session's entry comes, seen by another process", "a session closes, seen by another process")
}

func TestMeasurementsOfADirectoryRefuseOtherStores(t *testing.T) {
	t.Parallel()
	refused := 0
	for _, b := range Benches() {
		b.Registry = "postgres://localhost/rf"
		if err := b.check(); err != nil && strings.Contains(err.Error(), "no --registry") {
			refused++
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("error %v", err)
			}
		}
	}
	if refused != 4 {
		t.Errorf("%d commands refuse other stores; expected all, deliver, reopen and memory", refused)
	}
}

func TestReopenKillsTheWriterAndTimesTheNextOne(t *testing.T) {
	t.Parallel()
	r := checked(t, &reopen{Records: 3000}, "reopen after kill -9 with 300 records", "reopen after kill -9 with 3,000 records")
	if got := names(r.Figures); len(got) != 2 {
		t.Errorf("figures %q", got)
	}
}

func TestFailoverMeasuresKillsAndCleanMoves(t *testing.T) {
	t.Parallel()
	r := checked(t, &failover{Kills: 2, Leaves: 1, Partitions: 4, Processes: 2, Rate: 400},
		"kill -9 to first record of new owner", "kill -9 to the last of its partitions", "clean move, last record to first record")
	if len(r.Figures) != 5 {
		t.Errorf("figures %q", names(r.Figures))
	}
	for _, f := range r.Figures {
		if f.Need == 0 && !f.OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestIdleMeasuresGroupsAndDaemons(t *testing.T) {
	t.Parallel()
	r := checked(t, &idle{Partitions: 4, Processes: 2, Subscriptions: 3}, "an idle group", "a daemon of idle subscriptions")
	if len(r.Figures) != 4 {
		t.Fatalf("figures %q", names(r.Figures))
	}
	if f := r.Figures[2]; f.Name != "resident memory of a daemon of 3 subscriptions, idle" || f.Need != 60 || !f.OK || f.Median < 1 {
		t.Errorf("%+v", f)
	}
	if f := r.Figures[3]; f.Name != "sessions of a daemon of 3 subscriptions" || f.Median != 1 || !f.OK {
		t.Errorf("%+v", f)
	}
	if f := r.Figures[0]; f.Name != "an idle group of 2 processes on 4 partitions" || math.Abs(f.Need-2.0/3) > 1e-9 {
		t.Errorf("%+v", f)
	}
}

// Four producer processes, one of them stopped by a signal over a switch: nothing is lost, doubled
// or out of order. How long they stand still is a matter of the machine.
func TestSwitchesKeepTheOrderOfStoppedProducersToo(t *testing.T) {
	t.Parallel()
	r, err := measured(t, &switches{Partitions: 4, Keys: 10}, func(b *Bench) { b.For, b.Durability = 100*time.Millisecond, ringfence.OS })
	if err != nil || r.Rows[0].Name != "pause of a producer" || r.Rows[1].Name != "pause of the slowest one" {
		t.Fatalf("%v, %+v", err, r)
	}
	if f := r.Figures[1]; !f.OK {
		t.Errorf("%+v", f)
	}
}

func TestMemoryMeasuresWholeProcesses(t *testing.T) {
	t.Parallel()
	r := checked(t, &memory{Records: 1000, Partitions: []int{2}}, "Consume 1,000 records, in the second tenth", "the same run, in the last tenth",
		"open log, 2 active partitions, 20 records", "open log, 2 active partitions, 200 records")
	if f := r.Figures[1]; f.Name != "memory of an open log with 2 active partitions" || f.Need != 12 {
		t.Errorf("%+v", f)
	}
}

func TestAssignMeasuresTimeAndMoves(t *testing.T) {
	t.Parallel()
	r, err := measured(t, &assignors{Units: 100, Members: 10})
	if err != nil || len(r.Rows) != 3 || r.Notes[1] != "sticky, a member joins: 9 units of live members move; at least 9 must" || r.Missed() != 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if f := r.Figures[4]; f.Name != "sticky, a member joins, units of live members that move" || f.Need != 9 {
		t.Errorf("%+v", f)
	}
}

func TestWrongSettingsAreAllReported(t *testing.T) {
	t.Parallel()
	_, err := measured(t, &produce{InFlight: []int{0}, Partitions: []int{-1}, Size: -5, Processes: 2}, func(b *Bench) { b.Command = nil })
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("produce returned %v", err)
	}
	for _, part := range []string{"--in-flight 0: expected more", "--partitions is -1", "--size is -5", "needs a program"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

// What is promised of a store stands beside it, under whatever scheme it is named.
func TestPromisesAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]float64{"": 20, "file:x": 20, "postgresql://h": 100, "rediss://h": 100, "mariadb://h": 100, "sqlite:x": 100, "etcds://h": 3000} {
		c := measure.Contest{Promises: promised, Where: Stores{Registry: url}.kind()}
		c.Show("takeover", "ms", 0, []float64{1})
		if f := c.Figures(); len(f) != 2 || f[0].Need != want {
			t.Errorf("%q: %+v", url, f)
		}
	}
}
