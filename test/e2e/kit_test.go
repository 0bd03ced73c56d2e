package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
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

// process is how one process opens shared stores: what stands between them and it.
type process struct {
	log      func(driver.Log) driver.Log                           // nil: nothing
	registry func(registrydriver.Registry) registrydriver.Registry // nil: nothing
	handle   *memregistry.Handle                                   // nil: one of its own
	logger   *slog.Logger
}

func (s *stores) open(t *testing.T) *ringfence.Client {
	t.Helper()
	return s.openAs(t, process{})
}

func (s *stores) openAs(t *testing.T, p process) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "shared:", Registry: "shared:", Logger: p.logger, Backends: []ringfence.Backend{{
		Scheme: "shared",
		OpenLog: func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) {
			if p.log == nil {
				return s.log.Open(), nil
			}
			return commitlog.New(p.log(s.log.Driver())), nil
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
			h := p.handle
			if h == nil {
				h = s.reg.Open()
			}
			if p.registry == nil {
				return h.Registry, nil
			}
			return registry.New(p.registry(h.Registry)), nil
		},
	}}})
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	return rf
}

// openDir opens a directory as one process does.
func openDir(t *testing.T, c ringfence.Config) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	return rf
}

func newTopic(t *testing.T, partitions int) (*stores, *ringfence.Client) {
	t.Helper()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: partitions}))
	return s, rf
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for something that a store or a process does by itself.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for limit := time.After(time.Minute); !done(); {
		select {
		case <-limit:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// produce appends n messages, round robin over the keys; the value is the number.
func produce(t *testing.T, rf *ringfence.Client, topic string, from, n, keys int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", i%keys), Value: fmt.Append(nil, i)}
		_, err := rf.Produce(t.Context(), topic, m)
		must(t, err)
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

// processDir is the variable that makes a test of this program the body of a process: it works in that directory until it is killed.
const processDir = "RINGFENCE_TEST_PROCESS_DIR"

// spawn starts a process whose body is that test.
func spawn(t *testing.T, body, dir string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+body+"$")
	cmd.Env = append(append(os.Environ(), processDir+"="+dir), env...)
	return cmd
}

// kill ends a process as kill -9 does.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed is no news
}
