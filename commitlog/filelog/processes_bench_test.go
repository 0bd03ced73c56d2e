package filelog_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/filelog"
)

const childInFlight = "RINGFENCE_TEST_FILELOG_IN_FLIGHT"

// produceForAWhile is a producer process of BenchmarkProcesses: it prints its rate and p99.
func produceForAWhile() {
	l, err := filelog.Open(context.Background(), filelog.Config{Dir: os.Getenv(childDir)})
	exitOn(err)
	topic, err := l.Topic(context.Background(), "bench")
	exitOn(err)
	n, err := strconv.Atoi(os.Getenv(childInFlight))
	exitOn(err)
	rate, p99 := inFlight(&testing.B{}, topic, 1, n, 1)(roundFor)
	fmt.Println(rate, int64(p99))
	os.Exit(0)
}

// BenchmarkProcesses appends to one partition from one process and from four.
func BenchmarkProcesses(b *testing.B) {
	c := filelog.Config{Dir: b.TempDir()}
	t := openTopic(b, open(b, c), "bench", 1)
	warm(b, t)
	several := func(processes, n int) func(time.Duration) (float64, time.Duration) {
		return func(time.Duration) (float64, time.Duration) { return runProducers(b, c.Dir, processes, n) }
	}
	report(b, []produceCase{
		{name: "1 process, 256 in flight", run: several(1, 256)},
		{name: "4 processes, 64 in flight each", run: several(4, 64)},
	})
	report(b, []produceCase{
		{name: "1 process, 1 in flight", run: several(1, 1)},
		{name: "4 processes, 1 in flight each", run: several(4, 1)},
	})
}

func runProducers(b *testing.B, dir string, processes, n int) (total float64, worst time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childDir+"="+dir, childInFlight+"="+strconv.Itoa(n))
			out, err := cmd.Output()
			var rate float64
			var p99 int64
			if err == nil {
				_, err = fmt.Fscan(bytes.NewReader(out), &rate, &p99)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Error(err)
			}
			total += rate
			worst = max(worst, time.Duration(p99))
		})
	}
	wg.Wait()
	return total, worst
}
