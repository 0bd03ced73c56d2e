package ringfence_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

// BenchmarkConsume measures records through Consume with an empty handler: order per key kept,
// checkpoints stored, records of 100 bytes with 1,000 keys, on a directory.
func BenchmarkConsume(b *testing.B) {
	for _, partitions := range []int{1, 8} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			const records = 2_000_000
			rf := fill(b, partitions, records)
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime(b)
			for i := range b.N {
				var n atomic.Int64
				ctx, cancel := context.WithCancel(b.Context())
				err := rf.Consume(ctx, "t", fmt.Sprintf("g%d", i), func(context.Context, *ringfence.Message) error {
					if n.Add(1) == records {
						cancel()
					}
					return nil
				}, nil)
				cancel()
				if err != nil || n.Load() != records {
					b.Fatalf("%d of %d records: %v", n.Load(), records, err)
				}
			}
			b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(b.N)*records/(cpuTime(b)-began).Seconds(), "records/CPU-s")
		})
	}
}

// fill makes topic t with records of 100 bytes, spread over its partitions.
func fill(b *testing.B, partitions, records int) *ringfence.Client {
	b.Helper()
	ctx := b.Context()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: b.TempDir(), Durability: ringfence.OS})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rf.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := rf.EnsureTopic(ctx, "t", ringfence.TopicConfig{Partitions: partitions, Life: "x"}); err != nil {
		b.Fatal(err)
	}
	t, err := rf.Log().Topic(ctx, topic.StorageName("", "t", "x", 0))
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]commitlog.Record, 1000)
	value := make([]byte, 92)
	for done := 0; done < records; done += len(batch) {
		for i := range batch {
			batch[i] = commitlog.Record{Key: fmt.Appendf(nil, "key-%04d", (done+i*7)%1000), Value: value}
		}
		if _, err := t.Append(ctx, done/len(batch)%partitions, batch, nil); err != nil {
			b.Fatal(err)
		}
	}
	return rf
}

// cpuTime is what the process has used of all processors. It depends less on what else the
// machine is doing than the time that passed.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
