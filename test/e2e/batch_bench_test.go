package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// BenchmarkBatches delivers a topic one by one and in batches, to handlers that do nothing and to some that
// make one round trip of 200 µs a call; "ratio" is to what one by one came to in the same run, and "cpu-ns/op"
// what is spent whoever else uses the processors.
func BenchmarkBatches(b *testing.B) {
	for _, trip := range []time.Duration{0, 200 * time.Microsecond} {
		var single float64
		b.Run(fmt.Sprintf("trip=%s/one-by-one", trip), func(b *testing.B) {
			single = deliverAll(b, func(ctx context.Context, rf *ringfence.Client, done func(int)) error {
				return rf.Subscribe(ctx, "s", func(context.Context, *ringfence.Message) error {
					roundTrip(trip)
					done(1)
					return nil
				}, nil)
			})
		})
		for _, size := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("trip=%s/batches-of-%d", trip, size), func(b *testing.B) {
				rate := deliverAll(b, func(ctx context.Context, rf *ringfence.Client, done func(int)) error {
					return rf.SubscribeBatch(ctx, "s", func(_ context.Context, ms []*ringfence.Message) []error {
						roundTrip(trip)
						done(len(ms))
						return nil
					}, &ringfence.SubscribeOptions{BatchSize: size})
				})
				b.ReportMetric(rate/single, "ratio")
			})
		}
	}
}

// deliverAll measures how many of b.N records are delivered in a second.
func deliverAll(b *testing.B, subscribe func(context.Context, *ringfence.Client, func(int)) error) float64 {
	b.ReportAllocs()
	rf, err := ringfence.Open(b.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	must(b, err)
	defer func() { _ = rf.Close() }()
	must(b, rf.EnsureTopic(b.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	_, err = rf.Admin().CreateSubscription(b.Context(), "s", admin.SubscriptionConfig{Topic: "orders"})
	must(b, err)
	var stored sync.WaitGroup
	for i := range b.N {
		stored.Add(1)
		rf.ProduceAsync(b.Context(), "orders", ringfence.Message{Key: fmt.Append(nil, "k", i%10_000), Value: make([]byte, 100)}, nil, func(_ ringfence.Position, err error) {
			must(b, err)
			stored.Done()
		})
	}
	stored.Wait()
	ctx, cancel := context.WithCancel(b.Context())
	all, over := make(chan struct{}), make(chan error, 1)
	var n atomic.Int64
	before := cpu(b)
	b.ResetTimer()
	go func() { // joined below
		over <- subscribe(ctx, rf, func(k int) {
			if n.Add(int64(k)) == int64(b.N) {
				close(all)
			}
		})
	}()
	<-all
	b.StopTimer()
	spent := cpu(b) - before
	cancel()
	must(b, <-over)
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "rec/s")
	b.ReportMetric(float64(spent)/float64(b.N), "cpu-ns/op")
	return rate
}

// cpu is the time that this process has had of the processors.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func roundTrip(long time.Duration) {
	if long > 0 {
		<-time.NewTimer(long).C
	}
}
