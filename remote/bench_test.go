package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/remote"
)

// fill makes stores with n records of 100 bytes in 8 partitions.
func fill(b *testing.B, n int) *ringfence.Client {
	b.Helper()
	rf, err := ringfence.Open(b.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rf.Close() })
	if err := rf.EnsureTopic(b.Context(), "orders", ringfence.TopicConfig{Partitions: 8}); err != nil {
		b.Fatal(err)
	}
	acks := make(chan error, 1000)
	for i := range n {
		m := ringfence.Message{Key: fmt.Append(nil, "key-", i%1000), Value: bytes.Repeat([]byte("x"), 100)}
		rf.ProduceAsync(b.Context(), "orders", m, nil, func(_ ringfence.Position, err error) { acks <- err })
		if i >= 500 {
			<-acks
		}
	}
	for range min(n, 500) {
		if err := <-acks; err != nil {
			b.Fatal(err)
		}
	}
	return rf
}

func BenchmarkConsume(b *testing.B) {
	rf := fill(b, b.N)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	left := make(chan struct{}, 1024)
	go func() {
		for range b.N {
			<-left
		}
		cancel()
	}()
	b.ResetTimer()
	if err := rf.Consume(ctx, "orders", "g", func(context.Context, *ringfence.Message) error {
		left <- struct{}{}
		return nil
	}, nil); err != nil {
		b.Fatal(err)
	}
}

// The lines are written to memory, and answered by number as they come.
func BenchmarkMemberSession(b *testing.B) {
	for _, window := range []int{256, 4096} {
		b.Run(strconv.Itoa(window), func(b *testing.B) {
			rf := fill(b, b.N)
			h := rf.Remote("p")
			defer shut(h)
			s, err := h.Open(b.Context(), remote.Params{Group: "g", Topic: "orders", Window: window})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			lines := make(chan []byte, 100)
			go func() {
				left := b.N
				for b := range lines {
					var seen []byte
					body := []byte(`{"done":[`)
					for l := range bytes.Lines(b) {
						seen = l[5 : 5+bytes.IndexByte(l[5:], ',')]
						if bytes.Contains(l[:40], []byte(`"record"`)) {
							left--
							body = append(append(body, seen...), ',')
						}
					}
					body = append(bytes.TrimSuffix(body, []byte(",")), `],"seen":`...)
					if _, err := s.Answer(append(append(body, seen...), '}')); err != nil && ctx.Err() == nil {
						panic(err)
					}
					if left == 0 {
						cancel()
					}
				}
			}()
			b.ResetTimer()
			err = s.Stream(ctx, func(b []byte) error {
				lines <- bytes.Clone(b)
				return nil
			})
			close(lines)
			if !errors.Is(err, context.Canceled) {
				b.Fatal(err)
			}
		})
	}
}
