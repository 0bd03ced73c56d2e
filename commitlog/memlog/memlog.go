// Package memlog is a commit log in memory: the whole contract of commitlog/driver, for tests
// and for processes whose records need not outlive them.
package memlog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// Store holds topics. Several Logs may be open on one, as several processes would be on a
// directory.
type Store struct {
	opts Options

	mu     sync.Mutex
	topics map[string]*topic
}

// Options of a Store. The zero value is a log with dense offsets.
type Options struct {
	// Gaps leaves offsets out between batches, as Kafka and Pulsar do: what is written for
	// dense offsets only fails a test with it.
	Gaps bool
}

// NewStore is an empty store; nil options are the zero value.
func NewStore(opts *Options) *Store {
	s := &Store{topics: map[string]*topic{}}
	if opts != nil {
		s.opts = *opts
	}
	return s
}

// New is a log on a store of its own.
func New() *commitlog.Log { return NewStore(nil).Open() }

// Open is one more log on the store.
func (s *Store) Open() *commitlog.Log { return commitlog.New(s.Driver()) }

// Driver is Open without the portable type around it.
func (s *Store) Driver() driver.Log { return &memLog{store: s, closed: make(chan struct{})} }

type memLog struct {
	store  *Store
	once   sync.Once
	closed chan struct{}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (l *memLog) usable(ctx context.Context) error {
	if isClosed(l.closed) {
		return fmt.Errorf("memory log: %w", fault.Closed)
	}
	return ctx.Err()
}

func (l *memLog) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if t, ok := l.store.topics[c.Name]; ok {
		return t.checkShape(c)
	}
	l.store.topics[c.Name] = newTopic(c, l.store.opts.Gaps)
	return nil
}

func (l *memLog) AlterTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	l.store.mu.Lock()
	t, ok := l.store.topics[c.Name]
	l.store.mu.Unlock()
	if !ok {
		return fmt.Errorf("alter topic %q: %w", c.Name, fault.NotFound)
	}
	return t.alter(c)
}

func (l *memLog) DeleteTopic(ctx context.Context, name string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	l.store.mu.Lock()
	t, ok := l.store.topics[name]
	delete(l.store.topics, name)
	l.store.mu.Unlock()
	if !ok {
		return fmt.Errorf("delete topic %q: %w", name, fault.NotFound)
	}
	t.delete()
	return nil
}

func (l *memLog) Topics(ctx context.Context) ([]driver.TopicConfig, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	list := make([]driver.TopicConfig, 0, len(l.store.topics))
	for _, name := range slices.Sorted(maps.Keys(l.store.topics)) {
		list = append(list, l.store.topics[name].now())
	}
	return list, nil
}

func (l *memLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	t, ok := l.store.topics[name]
	if !ok {
		return nil, fmt.Errorf("open topic %q: %w (create it first)", name, fault.NotFound)
	}
	return &handle{topic: t, log: l, closed: make(chan struct{})}, nil
}

func (l *memLog) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
