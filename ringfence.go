package ringfence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/topic"
)

// Client is an open Ringfence: a commit log and a registry. Its methods may be called
// concurrently. Use one for each process and store.
type Client struct {
	cfg     Config
	logger  *slog.Logger
	log     *commitlog.Log
	reg     *registry.Registry
	catalog *topic.Catalog

	mu     sync.Mutex
	topics map[string]*topic.Topic // open handles, by name
	ended  []*topic.Topic          // handles of topics that are gone; Close closes them
	closed bool
}

// Open opens the stores that c names. The caller closes the client.
//
// Errors: ErrInvalid with every fault of c; ErrNotFound when c.MustExist and there is no store;
// what the stores say otherwise.
func Open(ctx context.Context, c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	cl := &Client{cfg: c, logger: c.Logger, topics: make(map[string]*topic.Topic)}
	u, b, err := lookUp("log", c.Log, c.backends())
	if err != nil {
		return nil, err
	}
	if cl.log, err = b.OpenLog(ctx, u, driver.Options{Durability: c.Durability, Logger: c.Logger, AllowShared: c.AllowShared, StrictTLS: c.StrictTLS}); err != nil {
		return nil, fmt.Errorf("open log %s: %w", storeurl.RedactText(c.Log), err)
	}
	if u, b, err = lookUp("registry", c.Registry, c.backends()); err != nil {
		return nil, errors.Join(err, cl.log.Close())
	}
	if cl.reg, err = b.OpenRegistry(ctx, u, registrydriver.Options{Namespace: c.Namespace, Logger: c.Logger, AllowShared: c.AllowShared, StrictTLS: c.StrictTLS}); err != nil {
		return nil, errors.Join(fmt.Errorf("open registry %s: %w", storeurl.RedactText(c.Registry), err), cl.log.Close())
	}
	cl.catalog = topic.NewCatalog(cl.log, cl.reg, c.Namespace)
	return cl, nil
}

// Log is the commit log below the client.
func (c *Client) Log() *commitlog.Log { return c.log }

// Registry is the coordination store below the client.
func (c *Client) Registry() *registry.Registry { return c.reg }

// Namespace is the one that the client works in, Config.Namespace.
func (c *Client) Namespace() string { return c.cfg.Namespace }

// Close finishes the produces under way and releases everything. Consume calls must have
// returned. Closing twice is nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	handles := c.ended
	for _, t := range c.topics {
		handles = append(handles, t)
	}
	c.topics, c.ended = nil, nil
	c.mu.Unlock()
	var errs []error
	for _, t := range handles {
		errs = append(errs, t.Close())
	}
	return errors.Join(append(errs, c.log.Close(), c.reg.Close())...)
}

// open returns the cached handle of a topic.
func (c *Client) open(ctx context.Context, name string) (*topic.Topic, error) {
	c.mu.Lock()
	t, closed := c.topics[name], c.closed
	c.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("client: %w", ErrClosed)
	}
	switch {
	case t == nil:
	case t.Gone():
		c.leave(name, t)
	default:
		return t, nil
	}
	t, err := c.catalog.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	other, closed := c.topics[name], c.closed
	if other == nil && !closed {
		c.topics[name] = t
	}
	c.mu.Unlock()
	switch {
	case closed:
		return nil, errors.Join(fmt.Errorf("client: %w", ErrClosed), t.Close())
	case other != nil:
		return other, t.Close()
	}
	return t, nil
}

// current is open, with the definition as it is now.
func (c *Client) current(ctx context.Context, name string) (*topic.Topic, error) {
	for {
		t, err := c.open(ctx, name)
		if err != nil {
			return nil, err
		}
		err = t.Refresh(ctx)
		if !errors.Is(err, topic.ErrAnotherLife) {
			return t, err
		}
		c.leave(name, t)
	}
}

// leave lets the next use of a topic open it anew, as this one may be gone. Whoever uses the handle
// keeps it until Close.
func (c *Client) leave(name string, t *topic.Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics[name] == t {
		delete(c.topics, name)
		c.ended = append(c.ended, t)
	}
}

// forget drops the cached handle of a topic that was deleted, so that the next use opens anew.
func (c *Client) forget(name string) {
	c.mu.Lock()
	t := c.topics[name]
	if t != nil {
		delete(c.topics, name)
	}
	c.mu.Unlock()
	if t != nil {
		_ = t.Close()
	}
}
