package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/group/sim"
	"github.com/ringfence/ringfence/internal/history"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this history, with a trace")
	countFlag = flag.Int("histories", 2000, "how many histories to run; RINGFENCE_SIM overrides it")
)

func TestSimulation(t *testing.T) {
	t.Parallel()
	simulate(t, false, 1)
}

// simulate runs one history in so many of those that were asked for, or only that of the flag.
func simulate(t *testing.T, inputs bool, one int) {
	t.Helper()
	if *seedFlag != 0 {
		if res := sim.Run(sim.Config{Seed: *seedFlag, Trace: os.Stdout, Inputs: inputs}); res.Err != nil {
			t.Fatalf("%v\n%s", res.Err, res.Report)
		}
		return
	}
	count := *countFlag
	if s := os.Getenv("RINGFENCE_SIM"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("RINGFENCE_SIM=%q: expected a number of histories", s)
		}
		count = n
	}
	demand(t, count/one, inputs)
}

// TestSimulationOfSeveralInputs is TestSimulation of units that read several partitions each.
func TestSimulationOfSeveralInputs(t *testing.T) {
	t.Parallel()
	simulate(t, true, 5)
}

// demand runs so many histories, none of which may fail.
func demand(t *testing.T, count int, inputs bool) {
	t.Helper()
	failed := histories(1, count, inputs)
	for _, res := range failed[:min(len(failed), 5)] {
		t.Errorf("%v\nrepeat it: go test ./group/sim -run '%s$' -seed=%d -v", res.Err, t.Name(), res.Seed)
	}
	if len(failed) > 5 {
		t.Errorf("and %d more of %d", len(failed)-5, count)
	}
}

// histories runs the seeds from first on and returns those that failed, by seed.
func histories(first uint64, count int, inputs bool) []sim.Result {
	results := make([]sim.Result, count)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for i := range workers {
		wg.Go(func() {
			for k := i; k < count; k += workers {
				if res := sim.Run(sim.Config{Seed: first + uint64(k), Inputs: inputs}); res.Err != nil {
					results[k] = res
				}
			}
		})
	}
	wg.Wait()
	var failed []sim.Result
	for _, res := range results {
		if res.Err != nil {
			failed = append(failed, res)
		}
	}
	return failed
}

func TestASeedGivesTheSameHistoryEachTime(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 200; seed++ {
		a, b := sim.Run(sim.Config{Seed: seed}), sim.Run(sim.Config{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps || fmt.Sprint(a.Err) != fmt.Sprint(b.Err) {
			t.Fatalf("seed %d: %x after %d steps, then %x after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}

// TestHistoriesAreFullOfTrouble fails when the faults no longer bite.
func TestHistoriesAreFullOfTrouble(t *testing.T) {
	t.Parallel()
	var total history.Report
	kinds := map[sim.Fault]int{}
	outrun := 0
	for seed := uint64(1); seed <= 500; seed++ {
		res := sim.Run(sim.Config{Seed: seed})
		for _, f := range res.Faults {
			kinds[f]++
		}
		outrun += res.Outrun
		r := res.Report
		total.Takeovers += r.Takeovers
		total.Handoffs += r.Handoffs
		total.Duplicated += r.Duplicated
		total.Stale += r.Stale
		total.Refused += r.Refused
		total.Seeks += r.Seeks
		total.Rollbacks += r.Rollbacks
		total.Failed += r.Failed
	}
	for what, n := range map[string]int64{
		"takeovers": total.Takeovers, "handoffs": total.Handoffs, "duplicates": total.Duplicated, "refused commits": total.Refused,
		"stale deliveries": total.Stale, "seeks": total.Seeks, "rollbacks": total.Rollbacks, "failed handlers": total.Failed,
		"workers that met a higher epoch": int64(outrun),
	} {
		if n < 20 {
			t.Errorf("500 histories have %d %s", n, what)
		}
	}
	for f := sim.Loss; f <= sim.Shared; f++ {
		if kinds[f] < 5 {
			t.Errorf("500 histories have %s %d times", f, kinds[f])
		}
	}
}
