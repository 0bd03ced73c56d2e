package kafkalog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// Open opens the log of a cluster. It asks one broker, so that a wrong address or password shows
// at once: fault.Unavailable when none answers, fault.Invalid when it refuses us. Close ends the
// connections and the goroutines.
func Open(ctx context.Context, c Config) (*commitlog.Log, error) {
	l, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	return commitlog.New(l), nil
}

func open(ctx context.Context, c Config) (*kafkaLog, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	if c.TLS == nil && (c.StrictTLS || len(c.Client) == 0) && c.mechanism() != nil { // a dialer among Client may speak TLS
		if err := storeurl.Plaintext("kafka log", c.Brokers, c.StrictTLS, c.Logger); err != nil {
			return nil, err
		}
	}
	main, err := c.client()
	if err != nil {
		return nil, err
	}
	l := &kafkaLog{c: c, main: main, decompress: decompressor(main), look: make(chan struct{}, 1), stores: map[string]*store{}, senders: map[int32]*sender{}, pollers: map[int32]*poller{}, budget: newBudget(c.BufferBytes)}
	if l.compress, err = c.compressor(); err != nil {
		main.Close()
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:gosec // cancelled by Close
	if err := persist(ctx, main.Ping); err != nil {
		l.cancel()
		main.Close()
		return nil, fmt.Errorf("kafka log on %v: %w", c.Brokers, err)
	}
	return l, nil
}

// kafkaLog is the driver.Log. mu guards what follows it.
type kafkaLog struct {
	c          Config
	main       *kgo.Client                // everything but long polls
	quick      atomic.Pointer[kgo.Broker] // answered when the one of the client's choice did not; or nil
	compress   kgo.Compressor
	decompress kgo.Decompressor
	budget     budget
	ending     atomic.Bool   // Close was called
	look       chan struct{} // a retention was changed here

	ctx    context.Context //nolint:containedctx // of the goroutines that Close joins
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	retaining bool
	done      bool // no goroutine may start any more
	stores    map[string]*store
	senders   map[int32]*sender
	pollers   map[int32]*poller
	polls     [longPolls]*kgo.Client
	held      heldSoFar
}

var _ driver.Log = (*kafkaLog)(nil)

var errClosed = fmt.Errorf("the kafka log: %w", fault.Closed)

func (l *kafkaLog) usable(ctx context.Context) error {
	if l.ending.Load() {
		return errClosed
	}
	return ctx.Err()
}

// start runs f in a goroutine that Close joins; false: too late.
func (l *kafkaLog) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return false
	}
	l.wg.Go(f)
	return true
}

// OpenTopic opens a handle. All handles of one topic share a store.
func (l *kafkaLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	s, err := l.describe(ctx, name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if have := l.stores[name]; have != nil && have.id == s.id {
		s = have
	} else {
		l.stores[name] = s
	}
	s.handles++
	l.keepRetaining()
	return &handle{s: s, closed: make(chan struct{})}, nil
}

// release drops one handle of s.
func (l *kafkaLog) release(s *store) {
	l.mu.Lock()
	s.handles--
	last := s.handles == 0
	if last && l.stores[s.config.Name] == s {
		delete(l.stores, s.config.Name)
	}
	l.mu.Unlock()
	if last {
		for _, p := range s.parts { // free what readers left behind
			p.read.clear()
		}
	}
}

// Close waits for the appends under way, for at most the delivery time-out, and ends everything.
func (l *kafkaLog) Close() error {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.ending.Store(true)
	stores := l.stores
	l.stores = nil
	l.mu.Unlock()
	if again {
		return nil
	}
	l.budget.drain(l.c.DeliveryTimeout)
	l.cancel()
	for _, s := range stores {
		s.wakeAll()
	}
	l.mu.Lock()
	l.done = true
	for _, s := range l.senders {
		s.wake()
	}
	l.mu.Unlock()
	l.wg.Wait()
	for _, c := range append(l.polls[:], l.main) {
		if c != nil {
			c.Close()
		}
	}
	return nil
}
