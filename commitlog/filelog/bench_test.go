package filelog_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// cpuTime is what this process used so far. Unlike rates, it hardly depends on what else runs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var value100 = make([]byte, 100)

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct{ partitions, batch int }{{1, 16}, {1, 1}, {16, 16}, {16, 1}} {
		b.Run(fmt.Sprintf("partitions=%d/frame=%d", c.partitions, c.batch), func(b *testing.B) {
			l := open(b, filelog.Config{Dir: b.TempDir(), Options: driver.Options{Durability: driver.OS}})
			t := openTopic(b, l, "read", c.partitions)
			recs := make([]commitlog.Record, c.batch)
			for i := range recs {
				recs[i].Value = value100
			}
			const total = 1_000_000
			for i := 0; i < total; i += c.batch {
				var wg sync.WaitGroup
				for p := range c.partitions { // one frame each
					wg.Add(1)
					t.AppendAsync(b.Context(), p, recs, nil, func(int64, error) { wg.Done() })
				}
				i += c.batch * (c.partitions - 1)
				wg.Wait()
			}
			readAll(b, t)
		})
	}
}

func readAll(b *testing.B, t *commitlog.Topic) {
	ctx := b.Context()
	bounds, err := t.Bounds(ctx, 0)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1<<20)
	var dst []commitlog.Record
	n, at := 0, bounds.Next
	start, before := time.Now(), cpuTime()
	for b.Loop() {
		for range 4000 {
			if at >= bounds.Next {
				at = 0
			}
			var err error
			dst, at, err = t.Read(ctx, 0, at, dst[:0], &commitlog.ReadOptions{Buf: buf})
			if err != nil || len(dst) == 0 {
				b.Fatal(len(dst), err)
			}
			n += len(dst)
			if n > 20_000_000 {
				break
			}
		}
	}
	b.ReportMetric(float64(n)/time.Since(start).Seconds()/1e6, "Mrecords/s")
	b.ReportMetric(float64(n)/(cpuTime()-before).Seconds()/1e6, "Mrecords/CPU-s")
}
