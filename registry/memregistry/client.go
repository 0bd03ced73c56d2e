package memregistry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
)

// client is the driver of one handle.
type client struct {
	store   *Store
	log     *slog.Logger
	watches kv.Watchers

	mu       sync.Mutex // never held while calling the store
	f        faults
	closed   bool
	sessions map[*session]struct{}
}

type faults struct {
	thawed                    chan struct{} // not nil: the process is stopped until it is closed
	outage                    bool
	latency                   time.Duration
	loseReplies, loseRequests int
	onApply                   func(keys []string) error
}

func (c *client) update(f func(*faults)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.f)
}

func (c *client) cutOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.f.outage
}

func (c *client) setFrozen(on bool) {
	c.update(func(f *faults) {
		switch {
		case on && f.thawed == nil:
			f.thawed = make(chan struct{})
		case !on && f.thawed != nil:
			close(f.thawed)
			f.thawed = nil
		}
	})
}

// stopped is nil, or what is closed when the process goes on.
func (c *client) stopped() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.f.thawed
}

func (c *client) setOutage(on bool) {
	c.update(func(f *faults) { f.outage = on })
	if !on {
		c.watches.All() // a reconnect: list again
	}
}

// enter is the way to the store: it waits out the latency and says whether the store answers.
func (c *client) enter(ctx context.Context) error {
	c.mu.Lock()
	wait := c.f.latency
	c.mu.Unlock()
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("memory registry: %w", driver.ErrClosed)
	}
	if c.f.outage {
		return fmt.Errorf("memory registry: outage: %w", driver.ErrUnavailable)
	}
	return nil
}

func (c *client) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	if err := c.enter(ctx); err != nil {
		return driver.Snapshot{}, err
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Snapshot{Entries: s.m.List(prefix), Revision: s.seq, Time: time.Now().UnixMilli()}, nil
}

func (c *client) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	hook, loseReply, loseRequest := c.nextFate()
	if hook != nil {
		if err := hook(written(txns, true)); err != nil {
			return nil, err
		}
	}
	if loseRequest {
		return unknown(len(txns)), nil
	}
	results := make([]driver.Result, len(txns))
	s := c.store
	s.mu.Lock()
	for i := range txns {
		results[i] = s.apply(&txns[i])
	}
	s.mu.Unlock()
	var loud []driver.Txn
	for i := range txns {
		if results[i].Err == nil {
			loud = append(loud, txns[i])
		}
	}
	s.changed(written(loud, false)...)
	if loseReply {
		return unknown(len(txns)), nil
	}
	return results, nil
}

func (c *client) nextFate() (hook func([]string) error, loseReply, loseRequest bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.f.loseReplies > 0 {
		c.f.loseReplies--
		return c.f.onApply, true, false
	}
	if c.f.loseRequests > 0 {
		c.f.loseRequests--
		return c.f.onApply, false, true
	}
	return c.f.onApply, false, false
}

// written are the keys that txns write; quiet ones only when asked for.
func written(txns []driver.Txn, quiet bool) []string {
	var keys []string
	for _, t := range txns {
		if t.Quiet && !quiet {
			continue
		}
		for _, p := range t.Puts {
			keys = append(keys, p.Key)
		}
		keys = append(keys, t.Deletes...)
	}
	return keys
}

func unknown(n int) []driver.Result {
	return slices.Repeat([]driver.Result{{Err: fmt.Errorf("memory registry: the reply was lost: %w", driver.ErrUnknown)}}, n)
}

func (c *client) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	ch, ok := c.watches.Add(ctx, prefix)
	if !ok {
		return nil, fmt.Errorf("memory registry: %w", driver.ErrClosed)
	}
	return ch, nil
}

// Close ends everything of this handle at once, which is also what a crash does.
func (c *client) Close() error {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.sessions))
	c.mu.Unlock()
	for _, s := range open {
		_ = s.Close(context.Background()) // which the memory does not refuse
	}
	c.watches.Close()
	c.store.mu.Lock()
	delete(c.store.handles, c)
	c.store.mu.Unlock()
	return nil
}
