package ringfence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/subscription/delivery"
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
	topics  *topic.Handles
	groups  *consumer.Groups
	subs    *delivery.Subscriptions
	close   sync.Once
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
	cl := &Client{cfg: c, logger: c.Logger}
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
	cl.topics = topic.NewHandles(cl.catalog)
	cl.groups = &consumer.Groups{Registry: cl.reg, Log: cl.log, Topics: cl.topics, Logger: c.Logger}
	cl.subs = delivery.New(cl.groups)
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
func (c *Client) Close() (err error) {
	c.close.Do(func() { err = errors.Join(c.topics.Close(), c.log.Close(), c.reg.Close()) })
	return err
}
