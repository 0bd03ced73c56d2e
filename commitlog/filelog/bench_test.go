package filelog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// The benchmarks run rounds of each case in turn, so that the drift of the disk hits all alike,
// and report the median of the rounds and the ratio to the peer of the same run.
const (
	rounds   = 5
	roundFor = 300 * time.Millisecond
)

// produceCase is one way to append for a while; it returns records per second.
type produceCase struct {
	name string
	run  func(d time.Duration) (rate float64, p99 time.Duration)
}

func report(b *testing.B, cases []produceCase) {
	rates, p99s, cpu := make([][]float64, len(cases)), make([][]time.Duration, len(cases)), make([][]float64, len(cases))
	for range rounds {
		for i := range cases {
			before, start := cpuTime(), time.Now()
			rate, p99 := cases[i].run(roundFor)
			cpu[i] = append(cpu[i], float64(cpuTime()-before)/1e3/(rate*time.Since(start).Seconds()))
			rates[i], p99s[i] = append(rates[i], rate), append(p99s[i], p99)
		}
	}
	base := median(rates[0])
	for i := range cases {
		b.Logf("%-40s %12.0f records/s  %6.2f of %s  p99 %v  CPU %.2f µs/record",
			cases[i].name, median(rates[i]), median(rates[i])/base, cases[0].name, median(p99s[i]), median(cpu[i]))
	}
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what this process used so far. Unlike rates, it hardly depends on what else runs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median[T int | float64 | time.Duration](v []T) T {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// rawSync is the peer: one 4 KiB pwrite and one fdatasync into a file full of zeros.
func rawSync(b *testing.B) produceCase {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if _, err := f.Write(make([]byte, 64<<20)); err != nil {
		b.Fatal(err)
	}
	f.Sync()
	buf, off := make([]byte, 4096), int64(0)
	return produceCase{name: "raw pwrite+fdatasync", run: func(d time.Duration) (float64, time.Duration) {
		n, lat, start := 0, []time.Duration{}, time.Now()
		for time.Since(start) < d {
			at := time.Now()
			if _, err := f.WriteAt(buf, off); err != nil {
				b.Fatal(err)
			}
			if err := syscall.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
			lat = append(lat, time.Since(at))
			off = (off + 4096) % (64 << 20)
			n++
		}
		return float64(n) / time.Since(start).Seconds(), p99(lat)
	}}
}

func p99(lat []time.Duration) time.Duration {
	if len(lat) == 0 {
		return 0
	}
	slices.Sort(lat)
	return lat[len(lat)*99/100]
}

var value100 = make([]byte, 100)

// inFlight appends with n goroutines that wait for each of their appends.
func inFlight(b *testing.B, topic *commitlog.Topic, partitions, n, batch int) func(d time.Duration) (float64, time.Duration) {
	return func(d time.Duration) (float64, time.Duration) {
		var wg sync.WaitGroup
		counts, lats := make([]int, n), make([][]time.Duration, n)
		start := time.Now()
		for g := range n {
			wg.Go(func() {
				recs := make([]commitlog.Record, batch)
				for i := range recs {
					recs[i].Value = value100
				}
				for time.Since(start) < d {
					at := time.Now()
					if _, err := topic.Append(context.Background(), g%partitions, recs, nil); err != nil {
						b.Error(err)
						return
					}
					lats[g] = append(lats[g], time.Since(at))
					counts[g] += batch
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		total := 0
		for _, c := range counts {
			total += c
		}
		return float64(total) / took.Seconds(), p99(slices.Concat(lats...))
	}
}

// window appends from one goroutine, with at most n unanswered.
func window(b *testing.B, topic *commitlog.Topic, n, size int) func(d time.Duration) (float64, time.Duration) {
	return func(d time.Duration) (float64, time.Duration) {
		room := make(chan struct{}, n)
		recs := []commitlog.Record{{Value: make([]byte, size)}}
		done := func(_ int64, err error) {
			if err != nil {
				b.Error(err)
			}
			<-room
		}
		count, start := 0, time.Now()
		for time.Since(start) < d {
			for range 100 {
				room <- struct{}{}
				topic.AppendAsync(context.Background(), 0, recs, nil, done)
				count++
			}
		}
		for range n {
			room <- struct{}{}
		}
		return float64(count) / time.Since(start).Seconds(), 0
	}
}

func benchTopic(b *testing.B, level driver.Durability, partitions int) *commitlog.Topic {
	l := open(b, filelog.Config{Dir: b.TempDir(), Options: driver.Options{Durability: level}})
	t := openTopic(b, l, "bench", partitions)
	warm(b, t)
	return t
}

// warm grows the topic past its small first segments.
func warm(b *testing.B, t *commitlog.Topic) {
	recs := []commitlog.Record{{Value: make([]byte, 1<<20)}}
	for range 28 {
		if _, err := t.Append(context.Background(), 0, recs, nil); err != nil {
			b.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // slow enough for segments to be prepared
	}
}

func BenchmarkDurable(b *testing.B) {
	t := benchTopic(b, driver.Sync, 1)
	cases := []produceCase{rawSync(b)}
	for _, n := range []int{1, 16, 256, 4096} {
		cases = append(cases, produceCase{name: fmt.Sprintf("%d in flight", n), run: inFlight(b, t, 1, n, 1)})
	}
	cases = append(cases, produceCase{name: "async window 4096", run: window(b, t, 4096, 100)})
	report(b, cases)
}

func BenchmarkOS(b *testing.B) {
	t := benchTopic(b, driver.OS, 1)
	report(b, []produceCase{
		{name: "1 in flight", run: inFlight(b, t, 1, 1, 1)},
		{name: "16 in flight", run: inFlight(b, t, 1, 16, 1)},
		{name: "256 in flight", run: inFlight(b, t, 1, 256, 1)},
		{name: "16 in flight, batches of 100", run: inFlight(b, t, 1, 16, 100)},
		{name: "16 in flight, batches of 1000", run: inFlight(b, t, 1, 16, 1000)},
	})
}

func BenchmarkPartitions(b *testing.B) {
	var cases []produceCase
	for _, p := range []int{1, 16, 64, 256} {
		t := benchTopic(b, driver.Sync, p)
		cases = append(cases, produceCase{name: fmt.Sprintf("%d partitions, 256 in flight", p), run: inFlight(b, t, p, 256, 1)})
	}
	report(b, cases)
}

func BenchmarkBandwidth(b *testing.B) {
	t := benchTopic(b, driver.Sync, 1)
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf, off := make([]byte, 1<<20), int64(0)
	report(b, []produceCase{
		{name: "raw 1 MiB pwrite+fdatasync, in KiB", run: func(d time.Duration) (float64, time.Duration) {
			n, start := 0, time.Now()
			for time.Since(start) < d {
				f.WriteAt(buf, off)
				syscall.Fdatasync(int(f.Fd()))
				off, n = (off+1<<20)%(256<<20), n+1024
			}
			return float64(n) / time.Since(start).Seconds(), 0
		}},
		{name: "1 KiB records, async window 4096", run: window(b, t, 4096, 1024)},
	})
}

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

func BenchmarkDurable4096(b *testing.B) {
	t := benchTopic(b, driver.Sync, 1)
	report(b, []produceCase{{name: "4096 in flight", run: inFlight(b, t, 1, 4096, 1)}})
}

// BenchmarkReopen opens a log with 5 million records. Nothing is written at close, so this is
// what an open after kill -9 does, too.
func BenchmarkReopen(b *testing.B) {
	c := filelog.Config{Dir: b.TempDir(), Options: driver.Options{Durability: driver.OS}}
	l := mustOpen(b, c)
	t := openTopic(b, l, "big", 1)
	recs := make([]commitlog.Record, 16)
	for i := range recs {
		recs[i].Value = value100
	}
	var wg sync.WaitGroup
	for range 5_000_000 / len(recs) {
		wg.Add(1)
		t.AppendAsync(b.Context(), 0, recs, nil, func(int64, error) { wg.Done() })
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l := mustOpen(b, c)
		t, err := l.Topic(b.Context(), "big")
		if err != nil {
			b.Fatal(err)
		}
		if bounds, err := t.Bounds(b.Context(), 0); err != nil || bounds.Next < 4_999_000 {
			b.Fatal(bounds, err)
		}
		l.Close()
	}
}
