package sim_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/remote/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this history, with a trace")
	countFlag = flag.Int("histories", 300, "how many histories to run; RINGFENCE_SIM overrides it")
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
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	var mu sync.Mutex
	bad, steps := 0, 0
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range seeds {
				res := sim.Run(sim.Config{Seed: seed})
				mu.Lock()
				steps += res.Steps
				if res.Err != nil {
					if bad++; bad <= 5 {
						t.Errorf("%v\nrepeat it: go test ./remote/sim -run 'TestSimulation$' -seed=%d -v", res.Err, seed)
					}
				}
				mu.Unlock()
			}
		})
	}
	for seed := range count {
		seeds <- uint64(seed) + 1
	}
	close(seeds)
	wg.Wait()
	t.Logf("%d histories, %d steps, %d bad", count, steps, bad)
}
