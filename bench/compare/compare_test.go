package compare

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

// TestMain makes the test binary a child process when a measurement starts it as one.
func TestMain(m *testing.M) {
	if asked, err := Child(context.Background(), os.Args); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// tiny is one short round of the named peers; what is measured means nothing.
func tiny(t *testing.T, names ...string) Config {
	t.Helper()
	peers, err := peer.Named(append(names, peer.Ringfence))
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Peers: peers, Rounds: 1, Turn: 10 * time.Millisecond, InFlight: []int{2}, Dir: t.TempDir(), Records: 3200, Rate: 500, Size: 100,
		Progress: t.Output(),
	}
}

// gather collects the reports of one kind of measurement.
func gather(t *testing.T, measureAll Kind, c Config) []*measure.Report {
	t.Helper()
	var all []*measure.Report
	err := script.Try(func(s *script.Script) {
		measureAll(t.Context(), s, c, func(r *measure.Report) { all = append(all, r) })
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if len(r.Rows) == 0 || r.Rows[0].Name != peer.Ringfence {
			t.Errorf("%s: rows %v; want ringfence first", r.Bench, r.Rows)
		}
		for _, row := range r.Rows {
			if row.Median <= 0 {
				t.Errorf("%s: %s has median %v", r.Bench, row.Name, row.Median)
			}
		}
	}
	return all
}

// names are the contestants of a report.
func names(r *measure.Report) string {
	var all []string
	for _, row := range r.Rows {
		all = append(all, row.Name)
	}
	return strings.Join(all, " ")
}

// needs are what a report says is required.
func needs(r *measure.Report) (all []float64) {
	for _, f := range r.Figures {
		all = append(all, f.Need)
	}
	return all
}

func TestProduceMeasuresEveryEmbeddedPeer(t *testing.T) {
	t.Parallel()
	c := tiny(t, "nats", "pebble", "tidwall")
	c.InFlight = []int{2, 256}
	reports := gather(t, Produce, c)
	want := []struct {
		bench string
		needs []float64
	}{
		{"durable, 2 in flight", nil},
		{"durable, 256 in flight", []float64{100, 2, 1.3}},
	}
	for i, r := range reports {
		if i >= len(want) || r.Bench != want[i].bench || names(r) != "ringfence nats pebble tidwall" || !slices.Equal(needs(r), want[i].needs) {
			t.Errorf("report %d is %q of %q, required %v; expected %+v", i, r.Bench, names(r), needs(r), want[min(i, len(want)-1)])
		}
	}
	if len(reports) != len(want) {
		t.Errorf("got %d reports; want %d", len(reports), len(want))
	}
}

func TestConsumeReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	reports := gather(t, Consume, tiny(t, "nats", "pebble", "tidwall"))
	if len(reports) != 1 || names(reports[0]) != "ringfence nats tidwall" {
		t.Fatalf("got %v", reports)
	}
	if got := needs(reports[0]); !slices.Equal(got, []float64{40, 2.5}) {
		t.Errorf("required are %v; expected those of NATS and of tidwall", got)
	}
}

// The smaller latency is the better one, so it is the peer's that is so many times as long.
func TestLatencyHandsOverBetweenProcesses(t *testing.T) {
	t.Parallel()
	reports := gather(t, Latency, tiny(t, "nats"))
	if len(reports) != 1 || names(reports[0]) != "ringfence nats" || !slices.Equal(needs(reports[0]), []float64{2}) {
		t.Fatalf("got %+v", reports)
	}
	own, nats := reports[0].Rows[0], reports[0].Rows[1]
	if f := reports[0].Figures[0]; f.Median != nats.Median/own.Median || nats.Reverse {
		t.Errorf("%+v of %v and %v", f, own.Median, nats.Median)
	}
}

func TestKafkaAsksForABroker(t *testing.T) {
	t.Parallel()
	err := script.Try(func(s *script.Script) { Kafka(t.Context(), s, tiny(t), nil) })
	if err == nil || !strings.Contains(err.Error(), "-brokers") {
		t.Errorf("got %v", err)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){
		func(c *Config) { c.Peers = nil },
		func(c *Config) { c.Peers = []peer.Peer{{Name: "nats"}} },
		func(c *Config) { c.Rounds = -1 },
		func(c *Config) { c.InFlight = []int{0} },
		func(c *Config) { c.Size = 2 << 20 },
	} {
		c := tiny(t)
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	c := tiny(t)
	c.Peers = peer.All()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
