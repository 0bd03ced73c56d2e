package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
)

// endless is a source that always has more, and costs next to nothing: 100-byte values under
// keys in rotation.
type endless struct {
	keys  [][]byte
	value []byte
	end   int64
}

func newEndless(keys int, end int64) *endless {
	s := &endless{value: make([]byte, 100), end: end}
	for i := range keys {
		s.keys = append(s.keys, fmt.Appendf(nil, "key-%06d", i))
	}
	return s
}

func (s *endless) Read(_ context.Context, offset int64, dst []commitlog.Record, maxBytes int) ([]commitlog.Record, int64, error) {
	for got := 0; got < maxBytes && offset < s.end; offset++ {
		r := commitlog.Record{Offset: offset, Timestamp: 1, Value: s.value}
		if len(s.keys) > 0 {
			r.Key = s.keys[offset%int64(len(s.keys))]
		}
		dst = append(dst, r)
		got += 110
	}
	return dst, offset, nil
}

func (s *endless) Wait(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *endless) Bounds(context.Context) (commitlog.Bounds, error) {
	return commitlog.Bounds{Next: s.end}, nil
}

func BenchmarkEmptyHandler(b *testing.B) {
	for _, keys := range []int{0, 1, 10, 1000, 100000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			runBench(b, newEndless(keys, int64(b.N)), 0)
		})
	}
}

func BenchmarkEmptyHandlerOneByOne(b *testing.B) {
	runBench(b, newEndless(1000, int64(b.N)), 1)
}

func runBench(b *testing.B, s Source, concurrency int) {
	b.ReportAllocs()
	var handled atomic.Int64
	done := make(chan struct{})
	var e *Engine
	e, err := New(Config{Inputs: []Input{{Source: s}}, Concurrency: concurrency, Handler: func(context.Context, *Record) error {
		if handled.Add(1) == int64(b.N) {
			close(done)
		}
		return nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	res := make(chan error, 1)
	b.ResetTimer()
	go func() { res <- e.Run(ctx) }() // joined below
	<-done
	b.StopTimer()
	cancel()
	<-res
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

// BenchmarkWakeUp is the way of a single record through an idle engine: from the append to the
// handler.
func BenchmarkWakeUp(b *testing.B) {
	log := memlog.New()
	defer func() { _ = log.Close() }()
	if err := log.CreateTopic(b.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	topic, err := log.Topic(b.Context(), "t")
	if err != nil {
		b.Fatal(err)
	}
	handled := make(chan struct{}, 1)
	e, err := New(Config{Inputs: []Input{{Source: Partition(topic, 0)}}, Handler: func(context.Context, *Record) error {
		handled <- struct{}{}
		return nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	res := make(chan error, 1)
	go func() { res <- e.Run(b.Context()) }() // joined below
	rec := []commitlog.Record{{Key: []byte("k"), Value: make([]byte, 100)}}
	for b.Loop() {
		if _, err := topic.Append(b.Context(), 0, rec, nil); err != nil {
			b.Fatal(err)
		}
		<-handled
	}
	e.Drain()
	if err := <-res; err != nil {
		b.Fatal(err)
	}
}
