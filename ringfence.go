package ringfence

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// Client is an open Ringfence: a commit log and a registry. Its methods may be called
// concurrently. Use one for each process and store.
type Client struct {
	namespace string
	logger    *slog.Logger
	log       *commitlog.Log
	reg       *registry.Registry
	catalog   *topic.Catalog
	topics    *topic.Handles
	groups    *consumer.Groups
	subs      *subscription.Subscriptions
	admin     *admin.Client
	close     sync.Once
}

// Open opens the stores that c names. The caller closes the client.
//
// Errors: ErrInvalid with every fault of c; ErrNotFound when c.MustExist and there is no store;
// what the stores say otherwise.
func Open(ctx context.Context, c Config) (*Client, error) {
	s, err := c.stores()
	if err != nil {
		return nil, err
	}
	cl := &Client{namespace: c.Namespace, logger: s.Logger}
	if cl.log, err = s.OpenLog(ctx); err != nil {
		return nil, err
	}
	if cl.reg, err = s.OpenRegistry(ctx); err != nil {
		return nil, errors.Join(err, cl.log.Close())
	}
	cl.catalog = topic.NewCatalog(cl.log, cl.reg, c.Namespace).WithLogger(cl.logger)
	cl.topics = topic.NewHandles(cl.catalog)
	cl.groups = &consumer.Groups{Registry: cl.reg, Sessions: protocol.NewSessions(cl.reg), Log: cl.log, Topics: cl.topics, Logger: cl.logger}
	cl.subs = subscription.New(cl.groups)
	cl.admin = admin.New(cl.groups, cl.subs)
	return cl, nil
}

// Admin gives orders about topics, groups, subscriptions, dead letters and rings.
func (c *Client) Admin() *admin.Client { return c.admin }

// Log is the commit log below the client.
func (c *Client) Log() *commitlog.Log { return c.log }

// Registry is the coordination store below the client.
func (c *Client) Registry() *registry.Registry { return c.reg }

// Namespace is the one that the client works in, Config.Namespace.
func (c *Client) Namespace() string { return c.namespace }

// Close finishes the produces under way and releases everything. Consume calls must have
// returned. Closing twice is nil.
func (c *Client) Close() (err error) {
	c.close.Do(func() { err = errors.Join(c.topics.Close(), c.log.Close(), c.reg.Close()) })
	return err
}

// orDefault is what a pointer to options points to; those of nil are the zero value.
func orDefault[T any](opts *T) (o T) {
	if opts != nil {
		o = *opts
	}
	return o
}
