package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// A broker whose partition is terminated while entries are on their way to its disk sometimes
// closes it to new readers for ever. Ringfence has to open it again.
func TestASealUnderLoadLeavesThePartitionsReadable(t *testing.T) {
	t.Parallel()
	open := store(t)
	sealing, other := open(), open()
	for round := range 8 {
		name := fmt.Sprintf("t%d", round)
		if err := sealing.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		a, err1 := sealing.Topic(t.Context(), name)
		b, err2 := other.Topic(t.Context(), name)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		stored := sealUnderLoad(t, a, b)
		began := time.Now()
		for p, want := range stored {
			r := b.NewReader(p, 0, nil)
			for n := 0; n < want; {
				recs, err := r.Next(t.Context())
				if err != nil {
					t.Fatalf("round %d: read partition %d of a sealed topic: %v", round, p, err)
				}
				n += len(recs)
			}
		}
		t.Logf("round %d: %v records read in %s", round, stored, time.Since(began))
	}
	if err := errors.Join(sealing.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// sealUnderLoad seals a while writers append to both handles, and counts what was acknowledged by
// partition.
func sealUnderLoad(t *testing.T, a, b *commitlog.Topic) (stored [2]int) {
	t.Helper()
	var mu sync.Mutex
	var writers sync.WaitGroup
	started := make(chan struct{}, 6)
	for w := range 6 {
		writers.Go(func() { // joined below
			topic, p := []*commitlog.Topic{a, b}[w%2], w/2%2
			for n := 0; ; n++ {
				if n == 3 {
					started <- struct{}{}
				}
				_, err := topic.Append(t.Context(), p, []commitlog.Record{{Value: []byte("x")}}, nil)
				if err != nil {
					if !errors.Is(err, fault.Sealed) || n < 3 {
						t.Errorf("append %d: %v; want it stored, or refused by the seal", n, err)
					}
					if n < 3 {
						started <- struct{}{}
					}
					return
				}
				mu.Lock()
				stored[p]++
				mu.Unlock()
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if _, err := a.Seal(t.Context()); err != nil {
		t.Error(err)
	}
	writers.Wait()
	return stored
}

// The broker has a word for each reader at the end of a terminated partition that the client does
// not know: it closes the connection, connects again, and hears it again, for ever.
func TestAReaderAtTheEndOfASealedPartitionLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	connects := &counter{Handler: slog.DiscardHandler, message: "Connecting to broker"}
	l, err := OpenURL(t.Context(), namespace(t), driver.Options{Logger: slog.New(connects)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := l.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	first, err := topic.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("x")}, {Value: []byte("y")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func(from int64) {
		t.Helper()
		r := topic.NewReader(0, from, nil)
		for n := 0; n < 2; {
			recs, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += len(recs)
		}
	}
	read(first) // with a reader that stands at the end when it is sealed
	if _, err := topic.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	read(first)
	read(0)
	<-time.After(300 * time.Millisecond) // for what is under way
	before := connects.seen.Load()
	<-time.After(2 * time.Second)
	if n := connects.seen.Load() - before; n > 0 {
		t.Errorf("the client connected %d times though nobody reads", n)
	}
	if before == 0 {
		t.Error("the client connected without a word: this test counts nothing")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// counter counts what is logged with a message.
type counter struct {
	slog.Handler
	message string
	seen    atomic.Int64
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == c.message {
		c.seen.Add(1)
	}
	return nil
}

func (c *counter) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *counter) WithGroup(string) slog.Handler { return c }
