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
	"github.com/ringfence/ringfence/internal/stores"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/remote"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// Client is an open Ringfence: a commit log and a registry. Its methods may be called
// concurrently. Use one for each process and store.
type Client struct {
	stores    *stores.Stores
	shared    bool // log is that of another client
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
	log, err := s.OpenLog(ctx)
	if err != nil {
		return nil, err
	}
	cl, err := newClient(ctx, s, log, c.Namespace)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return cl, nil
}

// In is a client of the same stores in another namespace. The caller closes it, before c.
//
// Errors: ErrInvalid for what can be no namespace; what the registry says otherwise.
func (c *Client) In(ctx context.Context, namespace string) (*Client, error) {
	if err := topic.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	in, err := newClient(ctx, c.stores, c.log, namespace)
	if err == nil {
		in.shared = true
	}
	return in, err
}

func newClient(ctx context.Context, s *stores.Stores, log *commitlog.Log, namespace string) (*Client, error) {
	reg, err := s.In(namespace).OpenRegistry(ctx)
	if err != nil {
		return nil, err
	}
	cl := &Client{stores: s, namespace: namespace, logger: s.Logger, log: log, reg: reg}
	cl.catalog = topic.NewCatalog(log, reg, namespace).WithLogger(s.Logger)
	cl.topics = topic.NewHandles(cl.catalog)
	cl.groups = &consumer.Groups{Registry: reg, Sessions: protocol.NewSessions(reg), Log: log, Topics: cl.topics, Logger: s.Logger}
	cl.subs = subscription.New(cl.groups)
	cl.admin = admin.New(cl.groups, cl.subs)
	return cl, nil
}

// Admin gives orders about topics, groups, subscriptions, dead letters and rings.
func (c *Client) Admin() *admin.Client { return c.admin }

// Remote holds sessions of consumers outside of this process, whose name no other process ever has. The caller closes it
// before the client.
func (c *Client) Remote(process string) *remote.Hub { return remote.NewHub(process, c.groups, c.subs) }

// Log is the commit log below the client.
func (c *Client) Log() *commitlog.Log { return c.log }

// Registry is the coordination store below the client.
func (c *Client) Registry() *registry.Registry { return c.reg }

// Namespace is the one that the client works in, Config.Namespace.
func (c *Client) Namespace() string { return c.namespace }

// Close finishes the produces under way and releases everything. Consume calls must have
// returned. Closing twice is nil.
func (c *Client) Close() (err error) {
	c.close.Do(func() {
		err = c.topics.Close()
		if !c.shared {
			err = errors.Join(err, c.log.Close())
		}
		err = errors.Join(err, c.reg.Close())
	})
	return err
}

// orDefault is what a pointer to options points to; those of nil are the zero value.
func orDefault[T any](opts *T) (o T) {
	if opts != nil {
		o = *opts
	}
	return o
}
