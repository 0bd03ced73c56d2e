package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/remote"
)

// line is a line of a session as a client reads it.
type line struct {
	N                  int64
	Type               string
	Storage, Partition int
	Epoch, Offset      int64
	Checkpoint         *int64
	Token, Key, Value  string
	Attempt            int
	Records            []int64
	Why, From, To      string
	ID                 string
	Window             int
	RetryMS            int64 `json:"retry_ms"`
	UntilMS            int64 `json:"until_ms"`
}

// open makes stores with a topic of so many partitions, and a hub.
func open(t *testing.T, partitions int) (*ringfence.Client, *remote.Hub) {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rf.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	h := rf.Remote("p1")
	t.Cleanup(func() { shut(h) })
	return rf, h
}

// shut closes a hub without patience.
func shut(h *remote.Hub) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.Close(ctx)
}

// produce appends values "0" to "n-1" for each key.
func produce(t *testing.T, rf *ringfence.Client, n int, keys ...string) {
	t.Helper()
	for i := range n {
		for _, k := range keys {
			if _, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: []byte(k), Value: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// stream is a client that reads the stream of a session and leaves its lines to take.
type stream struct {
	t    *testing.T
	s    *remote.Session
	cut  context.CancelFunc
	over chan struct{}

	mu    sync.Mutex
	more  *sync.Cond
	lines []line
	ended bool
}

func read(t *testing.T, h *remote.Hub, p remote.Params) *stream {
	t.Helper()
	s, err := h.Open(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancel(t.Context())
	c := &stream{t: t, s: s, cut: cut, over: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	go func() {
		defer close(c.over)
		_ = s.Stream(ctx, func(b []byte) error { // what it returns is the cut
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lines = append(c.lines, parseAll(b)...)
			c.more.Broadcast()
			return nil
		})
		c.mu.Lock()
		c.ended = true
		c.more.Broadcast()
		c.mu.Unlock()
	}()
	t.Cleanup(func() { cut(); <-c.over })
	return c
}

// parseAll reads lines; the ones that are no JSON are of no type.
func parseAll(b []byte) (ls []line) {
	for raw := range bytes.Lines(b) {
		var l line
		if json.Unmarshal(raw, &l) != nil {
			l = line{}
		}
		ls = append(ls, l)
	}
	return ls
}

// next waits for the next line of a type; "": any. Others on the way are passed over.
func (c *stream) next(kind string) line {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.lines) > 0 {
			l := c.lines[0]
			c.lines = c.lines[1:]
			if l.Type == kind || kind == "" {
				return l
			}
		}
		if c.ended {
			c.t.Fatalf("the stream ended; expected a line %q", kind)
		}
		c.more.Wait()
	}
}

// post sends answers and returns the reply's refusals.
func post(t *testing.T, s *remote.Session, body string, args ...any) map[int64]string {
	t.Helper()
	b, err := s.Answer(fmt.Appendf(nil, body, args...))
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(body, args...), err)
	}
	var reply struct {
		Refused []struct {
			N   int64
			Why string
		}
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		t.Fatal(err)
	}
	refused := map[int64]string{}
	for _, r := range reply.Refused {
		refused[r.N] = r.Why
	}
	return refused
}

const patience = 5 * time.Minute // of contexts that only a fault ends
