package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// stores are shared by several clients, as a directory is by several processes.
type stores struct {
	log *memlog.Store
	reg *memregistry.Store
}

func newStores() *stores {
	return &stores{log: memlog.NewStore(nil), reg: memregistry.NewStore()}
}

func (s *stores) open(t *testing.T) *ringfence.Client {
	t.Helper()
	return s.openWith(t, nil)
}

func (s *stores) openWith(t *testing.T, logger *slog.Logger) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "shared:", Registry: "shared:", Logger: logger, Backends: []ringfence.Backend{{
		Scheme: "shared",
		OpenLog: func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) {
			return s.log.Open(), nil
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
			return s.reg.Open().Registry, nil
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rf.Close(); err != nil {
			t.Error(err)
		}
	})
	return rf
}

// produce appends n messages, round robin over the keys; the value is the number.
func produce(t *testing.T, rf *ringfence.Client, topic string, from, n, keys int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", i%keys), Value: fmt.Append(nil, i)}
		if _, err := rf.Produce(t.Context(), topic, m); err != nil {
			t.Fatal(err)
		}
	}
}

// recorder keeps what was handled, by key, in the order it happened.
type recorder struct {
	mu    sync.Mutex
	byKey map[string][]string
	total int
	more  chan struct{} // a signal that total grew
}

func newRecorder() *recorder {
	return &recorder{byKey: map[string][]string{}, more: make(chan struct{}, 1)}
}

func (r *recorder) handle(_ context.Context, m *ringfence.Message) error {
	r.mu.Lock()
	r.byKey[string(m.Key)] = append(r.byKey[string(m.Key)], string(m.Value))
	r.total++
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
	return nil
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// waitFor blocks until n messages were handled.
func (r *recorder) waitFor(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for r.count() < n {
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("%d messages were handled; expected %d", r.count(), n)
		}
	}
}

// consumer is a Consume that runs beside the test.
type consumer struct {
	stop context.CancelFunc
	done chan error
}

func consume(t *testing.T, rf *ringfence.Client, topic, group string, h ringfence.Handler, o ringfence.ConsumeOptions) *consumer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &consumer{stop: cancel, done: make(chan error, 1)}
	go func() { c.done <- rf.Consume(ctx, topic, group, h, &o) }() // joined by leave
	t.Cleanup(func() { cancel() })
	return c
}

// leave ends the consumer in order.
func (c *consumer) leave(t *testing.T) {
	t.Helper()
	c.stop()
	select {
	case err := <-c.done:
		if err != nil {
			t.Fatalf("consume: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("consume does not return")
	}
}
