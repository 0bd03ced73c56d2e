package pulsarlog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
)

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
