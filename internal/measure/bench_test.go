package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/script"
)

// TestMain lets the test program be its own agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		stores := Stores{Log: os.Getenv("RINGFENCE_LOG"), Registry: os.Getenv("RINGFENCE_REGISTRY"), Namespace: os.Getenv("RINGFENCE_NAMESPACE")}
		if err := Agent(context.Background(), stores, os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// measured runs one tiny measurement of a command, with some of its flags.
func measured(t *testing.T, name string, args []string, change ...func(*Bench)) (*Report, error) {
	t.Helper()
	b := Named(name)
	fl := pflag.NewFlagSet(name, pflag.ContinueOnError)
	b.Flags(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	b.Common = Common{Dir: t.TempDir(), Rounds: 2, For: 50 * time.Millisecond, Command: []string{os.Args[0], "agent"}, Logf: t.Logf}
	for _, f := range change {
		f(b)
	}
	return b.Run(t.Context())
}

// checked demands a value above zero in each row, and that the rows are the ones named.
func checked(t *testing.T, name, args string, rows ...string) *Report {
	t.Helper()
	r, err := measured(t, name, strings.Fields(args))
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

// promises demands figures of these names.
func promises(t *testing.T, r *Report, names ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Figures {
		got = append(got, f.Name)
	}
	if !slices.Equal(got, names) {
		t.Errorf("figures are %q; expected %q", got, names)
	}
}

func TestProduceMeasuresCallersAWindowAndSeveralProcesses(t *testing.T) {
	t.Parallel()
	r := checked(t, "produce", "--in-flight=1,4 --async=64", "raw 4 KiB write + fdatasync", "1 in flight", "4 in flight", "one goroutine, window 64")
	if r.Rows[2].To != "4 x raw 4 KiB write + fdatasync" || r.Rows[2].P99 < r.Rows[2].P50 || r.Rows[2].P50 <= 0 {
		t.Errorf("row %+v", r.Rows[2])
	}
	promises(t, r, "durable, 1 in flight, of a raw write + fdatasync")
	r = checked(t, "produce", "--in-flight=2,5 --processes=2 --partitions=3",
		"raw 4 KiB write + fdatasync", "1 in flight, one partition, one process", "2 in flight, 3 partitions, 2 processes",
		"5 in flight, one partition, one process", "5 in flight, 3 partitions, 2 processes")
	if r.Rows[2].To != r.Rows[1].Name || r.Rows[4].To != r.Rows[3].Name {
		t.Errorf("ratios are to %q and %q", r.Rows[2].To, r.Rows[4].To)
	}
}

func TestProduceComparesPartitionsWithOneAndLargeRecordsWithTheBandwidth(t *testing.T) {
	t.Parallel()
	r := checked(t, "produce", "--in-flight=256 --partitions=16,64 --async=0",
		"raw 4 KiB write + fdatasync", "256 in flight, one partition, one process", "256 in flight, 16 partitions", "256 in flight, 64 partitions")
	promises(t, r, "durable, 256 in flight, 64 partitions, of one")
	r = checked(t, "produce", "--in-flight=2 --size=1024 --async=64",
		"raw 4 KiB write + fdatasync", "2 in flight", "raw 1 MiB writes + fdatasync, in records", "one goroutine, window 64")
	promises(t, r, "durable, large records, of the raw bandwidth")
	if r.Figures[0].Median != r.Rows[3].Ratio {
		t.Errorf("figures %+v, ratio %v", r.Figures, r.Rows[3].Ratio)
	}
}

func TestConsumeMeasuresReadsAndHandlers(t *testing.T) {
	t.Parallel()
	r := checked(t, "consume", "--records=5000 --partitions=3", "raw pread + CRC32C of as many bytes", "read one partition",
		"Consume, empty handler, 1 partition", "Consume, empty handler, 3 partitions")
	if r.Rows[3].To != "read one partition" {
		t.Errorf("row %+v", r.Rows[3])
	}
}

func TestLatencyMeasuresAnotherProcess(t *testing.T) {
	t.Parallel()
	r := checked(t, "latency", "", "one raw 4 KiB write + fdatasync, at that rate", "produce to handler, durability os", "produce to handler, durability sync")
	promises(t, r, "produce to handler in another process, durable, of one raw write + fdatasync")
}

// Both consumers are in one namespace of the stores that were named, and nothing is left there.
func TestLatencyMeasuresNamedStoresAndLeavesNothing(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	var b *Bench
	r, err := measured(t, "latency", nil, func(own *Bench) { b = own; b.Log, b.Registry = url+"/log", url+"/registry" })
	if err != nil || len(r.Rows) != 3 || !strings.HasSuffix(r.About, ", log file, registry file") {
		t.Fatalf("%v, %+v", err, r)
	}
	err = script.Try(func(s *script.Script) {
		rf := b.Stores.open(t.Context(), s, "", ringfence.OS)
		topics, groups := script.Must(rf.Admin().ListTopics(t.Context())), script.Must(rf.Admin().ListGroups(t.Context()))
		if len(topics)+len(groups) > 0 || b.Namespace == "" {
			t.Errorf("topics %v and groups %v are left in namespace %q", topics, groups, b.Namespace)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRegistryMeasuresCheckpoints(t *testing.T) {
	t.Parallel()
	r := checked(t, "registry", "--units=64 --batch=16", "fenced checkpoints, 16 a call, 4 callers", "fenced checkpoints, one a call, one caller")
	promises(t, r) // a directory sends no requests to compare with
}

func TestDirectoryMeasurementsRefuseOtherStores(t *testing.T) {
	t.Parallel()
	var refuse []string
	for _, b := range Benches() {
		b.Registry, b.Command = "postgres://localhost/rf", []string{"x"}
		b.Flags(pflag.NewFlagSet("", pflag.ContinueOnError))
		if err := b.Validate(); errors.Is(err, fault.Invalid) && strings.Contains(err.Error(), "no --registry") {
			refuse = append(refuse, b.Name)
		} else if err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(refuse, []string{"all", "deliver"}) {
		t.Errorf("%q refuse other stores", refuse)
	}
}

func TestFailoverMeasuresKillsAndCleanMoves(t *testing.T) {
	t.Parallel()
	r := checked(t, "failover", "--kills=2 --leaves=1 --partitions=4 --processes=2 --rate=400",
		"kill -9 to first record of new owner", "kill -9 to the last of its partitions", "clean move, last record to first record")
	promises(t, r, "kill -9 to first record of the new owner, p99, of the session TTL",
		"clean moves, records handled twice", "clean moves, interruptions of partitions that stay")
	for _, f := range r.Figures[1:] {
		if !f.OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestIdleMeasuresGroupsAndDaemons(t *testing.T) {
	t.Parallel()
	r := checked(t, "idle", "--partitions=4 --processes=2 --subscriptions=3", "an idle group", "a daemon of idle subscriptions")
	promises(t, r, "an idle group of consumer processes", "a daemon of idle subscriptions")
}

func TestDeliverComparesSubscriptionsInOneRun(t *testing.T) {
	t.Parallel()
	r := checked(t, "deliver", "--records=200 --partitions=2 --failing=20 --posts=10",
		"Consume, empty handler", "subscription, empty handler", "20 records, none fails", "of 20 records, the first fifth fail",
		"bare net/http client", "subscription with an endpoint")
	for row, to := range map[int]int{1: 0, 3: 2, 5: 4} {
		if r.Rows[row].To != r.Rows[to].Name {
			t.Errorf("%q is compared with %q; expected %q", r.Rows[row].Name, r.Rows[row].To, r.Rows[to].Name)
		}
	}
	promises(t, r, "subscription, empty handler, of Consume", "a fifth of the records fail, rate of the others", "subscription with an endpoint, of a bare client")
}

func TestAssignMeasuresTimeAndMoves(t *testing.T) {
	t.Parallel()
	r, err := measured(t, "assign", []string{"--units=100", "--members=10"})
	if err != nil || len(r.Rows) != 3 || r.Notes[1] != "sticky, a member joins: 9 units of live members move; at least 9 must" || r.Missed() != 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	promises(t, r, "a member joins: units that move, of the fewest possible")
}

func TestAllMeasuresEveryPart(t *testing.T) {
	t.Parallel()
	parts := 0
	err := script.Try(func(s *script.Script) {
		r := &run{Bench: &Bench{Common: Common{Dir: "here", Rounds: 3}}}
		for _, b := range Benches() {
			part := r.part(b.Name, nil)
			if part.Dir != "here" || part.Rounds != 3 {
				t.Errorf("%s is told %+v", b.Name, part.Common)
			}
			parts++
		}
	})
	if err != nil || parts < 9 {
		t.Errorf("%v after %d", err, parts)
	}
}

func TestSettingsAreCheckedTogether(t *testing.T) {
	t.Parallel()
	_, err := measured(t, "produce", []string{"--in-flight=1", "--processes=2"}, func(b *Bench) { b.Command = nil })
	for _, part := range []string{"--in-flight 1 is less than --processes 2", "needs a program"} {
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestPromiseOfTakeoverIsThatOfTheStore(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]float64{"": 0.02, "file:x": 0.02, "postgresql://h": 0.1, "rediss://h": 0.1, "mariadb://h": 0.1, "sqlite:x": 0.1, "etcds://h": 1.5} {
		c := Contest{Promises: promised, Where: Stores{Registry: url}.kind()}
		c.Show("takeover", "x", 1)
		if f := c.Figures(); len(f) != 1 || f[0].Need != want {
			t.Errorf("%q: %+v", url, f)
		}
	}
}
