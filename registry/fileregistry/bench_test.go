package fileregistry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// benchDir is on the disk that the module lies on: a temporary directory may be in memory.
func benchDir(b testing.TB) string {
	dir, err := os.MkdirTemp(".", ".bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	abs, _ := filepath.Abs(dir)
	return abs
}

func benchRegistry(b testing.TB, cfg Config) *registry.Registry {
	r, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	return r
}

// rawSync is one pwrite of n bytes and one fdatasync in a file written ahead.
func rawSync(b testing.TB, dir string, n int) func(i int) {
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if _, err := f.Write(make([]byte, 8<<20)); err != nil {
		b.Fatal(err)
	}
	f.Sync()
	buf := make([]byte, n)
	return func(i int) {
		f.WriteAt(buf, int64(i*n)%(8<<20-int64(n)))
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Error(err)
		}
	}
}

func checkpointTxn(unit int, version registry.Version) registry.Txn {
	return registry.Txn{
		Checks: []registry.Check{{Key: fmt.Sprintf("groups/g/owners/%08d", unit), Version: version}},
		Puts: []registry.Put{{
			Key:   fmt.Sprintf("checkpoints/g/%08d", unit),
			Value: []byte(`{"positions":[{"storage":0,"partition":3,"next":123456789}],"epoch":7,"member":"consumer-1","updated":1763712000000}`),
		}},
		Quiet: true,
	}
}

// BenchmarkAgainstFdatasync interleaves one Apply, and one raw write and fdatasync, and prints
// the medians of both.
func BenchmarkAgainstFdatasync(b *testing.B) {
	dir := benchDir(b)
	r := benchRegistry(b, Config{Dir: dir})
	raw := rawSync(b, dir, 256)
	var rawTimes, applyTimes []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		raw(i)
		middle := time.Now()
		if _, err := r.Txn(b.Context(), checkpointTxn(0, "")); err != nil {
			b.Fatal(err)
		}
		rawTimes = append(rawTimes, middle.Sub(start))
		applyTimes = append(applyTimes, time.Since(middle))
	}
	slices.Sort(rawTimes)
	slices.Sort(applyTimes)
	m, a := rawTimes[len(rawTimes)/2], applyTimes[len(applyTimes)/2]
	b.ReportMetric(float64(m.Microseconds()), "raw-µs")
	b.ReportMetric(float64(a.Microseconds()), "apply-µs")
	b.ReportMetric(float64(a)/float64(m), "ratio")
}

func BenchmarkCheckpointBatch(b *testing.B) {
	for _, units := range []int{100, 1000} {
		b.Run(fmt.Sprint("units=", units), func(b *testing.B) {
			r := benchRegistry(b, Config{Dir: benchDir(b)})
			txns := make([]registry.Txn, units)
			for i := range txns {
				txns[i] = checkpointTxn(i, "")
			}
			for b.Loop() {
				res, err := r.Apply(b.Context(), txns)
				if err != nil || res[0].Err != nil {
					b.Fatal(err, res)
				}
			}
			b.ReportMetric(float64(units)*float64(b.N)/b.Elapsed().Seconds(), "units/s")
		})
	}
}

func BenchmarkApplyParallel(b *testing.B) {
	r := benchRegistry(b, Config{Dir: benchDir(b)})
	const workers = 64
	var wg sync.WaitGroup
	each := b.N/workers + 1
	b.ResetTimer()
	for w := range workers {
		wg.Go(func() {
			for range each {
				if _, err := r.Txn(b.Context(), checkpointTxn(w, "")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(each*workers)/b.Elapsed().Seconds(), "txn/s")
}

func BenchmarkOpen10000Keys(b *testing.B) {
	dir := benchDir(b)
	r := benchRegistry(b, Config{Dir: dir})
	txns := make([]registry.Txn, 10_000)
	for i := range txns {
		txns[i] = checkpointTxn(i, "")
	}
	if _, err := r.Apply(b.Context(), txns); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		again, err := Open(b.Context(), Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		again.Close()
	}
}

// BenchmarkOpenAlone10000Keys is what a command pays that finds nobody alive: it has to recover.
func BenchmarkOpenAlone10000Keys(b *testing.B) {
	dir := benchDir(b)
	r, err := Open(b.Context(), Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	txns := make([]registry.Txn, 10_000)
	for i := range txns {
		txns[i] = checkpointTxn(i, "")
	}
	if _, err := r.Apply(b.Context(), txns); err != nil {
		b.Fatal(err)
	}
	r.Close()
	for b.Loop() {
		again, err := Open(b.Context(), Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		again.Close()
	}
}

// BenchmarkWatchAcross is a put by one registry until another one's watch has fired and listed.
func BenchmarkWatchAcross(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		b.Run(fmt.Sprint("sync=", !noSync), func(b *testing.B) {
			dir := benchDir(b)
			w, r := benchRegistry(b, Config{Dir: dir, NoSync: noSync}), benchRegistry(b, Config{Dir: dir, NoSync: noSync})
			ch, err := r.Watch(b.Context(), "w")
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				want := fmt.Sprint(i)
				go w.Txn(b.Context(), registry.Txn{Puts: []driver.Put{{Key: "w", Value: []byte(want)}}})
				for {
					<-ch
					if e, err := r.Get(b.Context(), "w"); err == nil && string(e.Value) == want {
						break
					}
				}
			}
		})
	}
}
