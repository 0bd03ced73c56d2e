package sim_test

import (
	"flag"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/subscription/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this history, with a trace")
	countFlag = flag.Int("histories", 8000, "how many histories to run; RINGFENCE_SIM overrides it")
)

func TestSimulation(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		if res := sim.Run(sim.Config{Seed: *seedFlag, Trace: os.Stdout}); res.Err != nil {
			t.Fatal(res.Err)
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
	results := histories(count)
	bad, steps := 0, 0
	for _, res := range results {
		steps += res.Steps
		if res.Err != nil {
			if bad++; bad <= 5 {
				t.Errorf("%v\nrepeat it: go test ./subscription/sim -run 'TestSimulation$' -seed=%d -v", res.Err, res.Seed)
			}
		}
	}
	t.Logf("%d histories, %d steps, %d bad", count, steps, bad)
}

// histories runs the seeds from 1 on.
func histories(count int) []sim.Result {
	results := make([]sim.Result, count)
	var bad atomic.Int32
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for i := range workers {
		wg.Go(func() {
			for k := i; k < count && bad.Load() < 5; k += workers { // more of them say nothing new
				if results[k] = sim.Run(sim.Config{Seed: uint64(k + 1)}); results[k].Err != nil {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return results
}

func TestASeedGivesTheSameHistoryEachTime(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 200; seed++ {
		a, b := sim.Run(sim.Config{Seed: seed}), sim.Run(sim.Config{Seed: seed})
		if a.Steps != b.Steps || a.Counts != b.Counts {
			t.Fatalf("seed %d: %+v, then %+v", seed, a, b)
		}
	}
}

// TestHistoriesAreFullOfTrouble fails when the faults no longer bite.
func TestHistoriesAreFullOfTrouble(t *testing.T) {
	t.Parallel()
	var total sim.Counts
	sum := reflect.ValueOf(&total).Elem()
	for _, res := range histories(500) {
		c := reflect.ValueOf(res.Counts)
		for i := range sum.NumField() {
			sum.Field(i).SetInt(sum.Field(i).Int() + c.Field(i).Int())
		}
	}
	for i := range sum.NumField() {
		if n := sum.Field(i).Int(); n < 25 {
			t.Errorf("500 histories have %d of %s", n, sum.Type().Field(i).Name)
		}
	}
	t.Logf("%+v", total)
}
