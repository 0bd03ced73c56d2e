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
		Durability: []peer.Durability{peer.Sync, peer.OS}, Progress: t.Output(),
	}
}

// gather collects the reports of one kind of measurement.
func gather(t *testing.T, measureAll Kind, c Config) []Report {
	t.Helper()
	var all []Report
	err := measureAll(t.Context(), c, func(r Report) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if len(r.Rows) == 0 || r.Rows[0].Name != peer.Ringfence {
			t.Errorf("%s: rows %v; want ringfence first", r.Title, r.Rows)
		}
		for _, row := range r.Rows {
			if row.Median <= 0 {
				t.Errorf("%s: %s has median %v", r.Title, row.Name, row.Median)
			}
		}
	}
	return all
}

// names are the contestants of a report.
func names(r Report) string {
	var all []string
	for _, row := range r.Rows {
		all = append(all, row.Name)
	}
	return strings.Join(all, " ")
}

func TestProduceMeasuresEveryEmbeddedPeer(t *testing.T) {
	t.Parallel()
	c := tiny(t, "raw", "nats", "pebble", "tidwall", "seedfile")
	reports := gather(t, Produce, c)
	// Two levels, each with two in flight, pipelined and in batches; and one for the bandwidth.
	if len(reports) != 7 {
		t.Fatalf("got %d reports; want 7", len(reports))
	}
	if got, want := names(reports[0]), "ringfence nats pebble tidwall seedfile"; got != want {
		t.Errorf("durable, two in flight: %s; want %s", got, want)
	}
	if got, want := names(reports[3]), "ringfence raw"; got != want {
		t.Errorf("bandwidth: %s; want %s", got, want)
	}
}

func TestConsumeReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	reports := gather(t, Consume, tiny(t, "nats", "pebble", "tidwall"))
	if len(reports) != 2 || names(reports[0]) != "ringfence nats pebble tidwall" {
		t.Fatalf("got %v", reports)
	}
	for _, r := range reports {
		if len(r.Bounds) != 1 {
			t.Errorf("%s: bounds %v; want the floor", r.Title, r.Bounds)
		}
	}
}

func TestLatencyHandsOverBetweenProcesses(t *testing.T) {
	t.Parallel()
	c := tiny(t, "raw", "nats")
	c.Durability = []peer.Durability{peer.OS}
	reports := gather(t, Latency, c)
	if len(reports) != 1 || names(reports[0]) != "ringfence "+logReader+" nats" {
		t.Fatalf("got %v", reports)
	}
}

func TestReopenFindsEveryRecordAfterKill(t *testing.T) {
	t.Parallel()
	reports := gather(t, Reopen, tiny(t, "pebble", "tidwall"))
	if len(reports) != 2 || len(reports[1].Bounds) != 2 {
		t.Fatalf("got %v", reports)
	}
}

func TestPromisedRatiosStandInTheScenarios(t *testing.T) {
	t.Parallel()
	c := tiny(t)
	c.InFlight = []int{1, 16, 256}
	want := map[string]float64{
		"durable, 1 in flight raw": 0.95, "durable, 16 in flight raw": 0.85, "durable, 256 in flight nats": 100,
		"durable, 256 in flight redis": 9, "durable, 256 in flight pebble": 2, "durable, 256 in flight tidwall": 1.3,
		"durable, 256 in flight postgres": 10, "durable, 256 in flight seedfile": 300, "durable, asynchronous nats": 500,
		"cache, batches of 100 pebble": 4, "cache, 16 in flight redis": 2,
	}
	scenarios := c.scenarios()
	for key, ratio := range want {
		cut := strings.LastIndex(key, " ")
		title, name := key[:cut], key[cut+1:]
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return strings.Contains(s.title, title) })
		if i < 0 || scenarios[i].need[name] != ratio {
			t.Errorf("%s: no scenario asks for %v of %s", title, ratio, name)
		}
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

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, need float64
		atMost    bool
		ok        bool
	}{{2, 1, false, true}, {1, 2, false, false}, {1, 2, true, true}, {3, 2, true, false}, {0, 2, true, false}} {
		var r Report
		if r.bound("x", c.got, c.need, c.atMost); r.OK() != c.ok {
			t.Errorf("%+v: want %t", r.Bounds, c.ok)
		}
	}
}

func row(name string, values ...float64) measure.Row { return measure.NewRow(name, "", values) }

func TestReportsTellRatiosAndWhatWasMissed(t *testing.T) {
	t.Parallel()
	all := []measure.Row{row("ringfence", 100, 1600, 9000), row("raw", 100, 100, 110), row("peer", 50, 800, 9000)}
	r := NewReport("durable", "records/s", false, all, map[string]float64{"raw": 0.85, "peer": 3}, map[string]float64{"raw": 16})
	if got := r.Rows[1].Ratio; got != 1 || !r.Rows[1].OK {
		t.Errorf("raw: ratio %v ok %t; want 1 true", got, r.Rows[1].OK)
	}
	if got := r.Rows[2].Ratio; got != 2 || r.Rows[2].OK || r.OK() {
		t.Errorf("peer: ratio %v ok %t; want 2 false", got, r.Rows[2].OK)
	}
	var text strings.Builder
	if err := r.Write(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,600", "2.00x", "MISSED", "median of 3 rounds"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	r = NewReport("latency", "µs", true, []measure.Row{row("ringfence", 50), row("nats", 200)}, map[string]float64{"nats": 2}, nil)
	if r.Rows[1].Ratio != 4 || !r.OK() {
		t.Errorf("got %+v; want ratio 4: the smaller is the better", r.Rows[1])
	}
}
