package e2e_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
)

// BenchmarkConsume handles b.N records of a directory with a handler that does nothing, in order per key and
// with checkpoints; "cpu-ns/op" is what is spent whoever else uses the processors.
func BenchmarkConsume(b *testing.B) {
	for _, partitions := range []int{1, 8} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) { benchConsume(b, partitions) })
	}
}

func benchConsume(b *testing.B, partitions int) {
	b.ReportAllocs()
	ctx := b.Context()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: b.TempDir(), Durability: ringfence.OS})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if err := rf.EnsureTopic(ctx, "orders", ringfence.TopicConfig{Partitions: partitions}); err != nil {
		b.Fatal(err)
	}
	d, err := rf.Admin().DescribeTopic(ctx, "orders")
	if err != nil {
		b.Fatal(err)
	}
	log, err := rf.Log().Topic(ctx, d.Storage[0].Name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }() // kept open: who opens it again writes again what was not synced
	for at, n := 0, 0; at < b.N; n++ {
		recs := make([]commitlog.Record, min(1000, b.N-at))
		for i := range recs {
			recs[i] = commitlog.Record{Key: fmt.Append(nil, "key-", (at+i)%1000), Value: make([]byte, 100)}
		}
		at += len(recs)
		if _, err := log.Append(ctx, n%partitions, recs, nil); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n atomic.Int64
	before := cpu(b)
	b.ResetTimer()
	err = rf.Consume(ctx, "orders", "g", func(context.Context, *ringfence.Message) error {
		if n.Add(1) == int64(b.N) {
			cancel()
		}
		return nil
	}, nil)
	b.StopTimer()
	if err != nil || n.Load() != int64(b.N) {
		b.Fatalf("%d of %d records were handled, %v; expected all, once each", n.Load(), b.N, err)
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}
