// Package etcdregistry is a registry in etcd 3.4 or newer.
//
// A version is etcd's modification revision, a session is a lease, and a transaction is a transaction of
// etcd. So the promises of the seam are etcd's own: entries survive the loss of a minority of nodes, and
// the end of a lease removes its entries at one revision. Independent transactions travel as branches of
// one request (merge.go).
//
// Everything lies below the prefix of the URL: PREFIX/format has the format's number, PREFIX/v1/NAMESPACE/KEY a
// value as it was given. The namespace is escaped as in a URL's path; the empty one is "_".
package etcdregistry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/lease"
)

// Config says which etcd, and where in it.
type Config struct {
	driver.Options

	Endpoints []string // host:port of its nodes; at least one
	// Prefix starts all keys. "": "ringfence". No prefix may lie inside another.
	Prefix   string
	User     string // "": etcd's authentication is not used
	Password string
	// PasswordFile names a file with the password, in place of Password. Each login reads it. Its mode
	// must keep other users out.
	PasswordFile string
	TLS          *tls.Config // nil: plain TCP
	// RequestTimeout bounds each request, even if its context lasts longer. 0: 5 s.
	RequestTimeout time.Duration
}

const (
	defaultPrefix  = "ringfence"
	defaultTimeout = 5 * time.Second
	// closeTimeout is how long Close tries to end the sessions; after it they end with their TTL.
	closeTimeout = time.Second
	// etcd's servers refuse pings that come more often than every 5 s, and gRPC sends none more
	// often than every 10 s.
	pingEvery   = 10 * time.Second
	pingTimeout = 3 * time.Second
)

type store struct {
	client  *clientv3.Client
	conns   *conns
	log     *slog.Logger
	root    string // what every key of the namespace begins with
	timeout time.Duration
	alone   atomic.Bool // the server takes no merged transactions
	full    atomic.Bool // the server's quota is reached, see full.go
	gate    *hook.Gate

	wg sync.WaitGroup // the watches

	own    lease.Own
	mu     sync.Mutex // never held while calling the server
	closed bool
}

// Open connects to etcd. It fails with ErrUnavailable if no node answers before ctx ends or
// RequestTimeout is over, and with ErrInvalid for a bad configuration or another format.
func Open(ctx context.Context, cfg Config) (*registry.Registry, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return registry.New(s), nil
}

func open(ctx context.Context, cfg Config) (*store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, fmt.Errorf("etcd registry: no endpoints; expected host:port of at least one node: %w", fault.Invalid)
	}
	root, err := root(cfg.Prefix, cfg.Namespace)
	if err != nil {
		return nil, err
	}
	s := &store{log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), root: root, timeout: cfg.RequestTimeout, conns: newConns(), gate: hook.GateOf(ctx)}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	if cfg.PasswordFile != "" {
		if cfg.Password, err = storeurl.ReadPassword(cfg.PasswordFile); err != nil {
			return nil, fmt.Errorf("etcd registry: %w: %w", err, fault.Invalid)
		}
	}
	if cfg.User != "" && cfg.TLS == nil {
		if err := storeurl.Plaintext("etcd registry", cfg.Endpoints, cfg.StrictTLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	if err := s.dial(ctx, cfg); err != nil {
		return nil, fmt.Errorf("etcd registry at %s: %w", strings.Join(cfg.Endpoints, ","), err)
	}
	return s, nil
}

func (s *store) dial(ctx context.Context, cfg Config) error {
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	endpoints := make([]string, len(cfg.Endpoints))
	for i, e := range cfg.Endpoints {
		endpoints[i] = scheme + e
	}
	options := []grpc.DialOption{
		grpc.WithStatsHandler(sentHandler{}), grpc.WithContextDialer(s.conns.dial),
		grpc.WithChainUnaryInterceptor(failFast), grpc.WithConnectParams(connecting),
	}
	if cfg.PasswordFile != "" {
		options = append(options, grpc.WithChainUnaryInterceptor(freshPassword(cfg.PasswordFile)))
	}
	if cfg.TLS != nil && cfg.TLS.ServerName != "" {
		// gRPC overwrites the name in the TLS configuration with that of the endpoint otherwise.
		options = append(options, grpc.WithAuthority(cfg.TLS.ServerName))
	}
	// The client logs in while it is made, and takes no context for that: cancel its own.
	own, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, giveUp)
	client, err := clientv3.New(clientv3.Config{
		Context:   own,
		Endpoints: endpoints, Username: cfg.User, Password: cfg.Password, TLS: cfg.TLS,
		DialTimeout:       s.timeout,
		DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingTimeout,
		// A reading request goes to each node once; waiting longer is up to the caller.
		MaxUnaryRetries: uint(len(endpoints)),
		// The server limits requests by its own setting.
		MaxCallSendMsgSize: limits.EtcdAnswerBytes, MaxCallRecvMsgSize: limits.EtcdAnswerBytes,
		DialOptions: options,
		Logger:      zap.NewNop(),
	})
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), client.Close())
	}
	if err != nil {
		giveUp()
		return kind(ctx, err)
	}
	s.client = client
	if err := s.checkFormat(ctx, cfg.Prefix); err != nil {
		return errors.Join(err, client.Close())
	}
	return nil
}

// format is of the layout of the keys and values.
const format = "1"

// root starts the keys of a namespace. An escaped namespace has no '/', so none lies in another.
func root(prefix, namespace string) (string, error) {
	if err := kv.CheckNamespace(namespace); err != nil {
		return "", err
	}
	escaped := url.PathEscape(namespace)
	switch namespace {
	case "":
		escaped = "_"
	case "_":
		escaped = "%5F"
	}
	return base(prefix) + "/v" + format + "/" + escaped + "/", nil
}

func base(prefix string) string { return cmp.Or(strings.Trim(prefix, "/"), defaultPrefix) }

// checkFormat writes the number of the layout where there is none, and refuses another.
func (s *store) checkFormat(ctx context.Context, prefix string) error {
	key := base(prefix) + "/format"
	var found string
	err := s.request(ctx, func(ctx context.Context) error {
		there, err := s.client.Get(ctx, key)
		if err != nil {
			return err
		}
		if len(there.Kvs) > 0 { // the usual case, which also opens a full store for reading
			found = string(there.Kvs[0].Value)
			return nil
		}
		resp, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, format)).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		found = format
		if !resp.Succeeded {
			found = string(resp.Responses[0].GetResponseRange().Kvs[0].Value)
		}
		return nil
	})
	if err != nil {
		return s.kind(ctx, err)
	}
	if found != format {
		return fmt.Errorf("%q holds format %q; this program reads %s: %w", key, found, format, fault.Newer)
	}
	return nil
}

// enter refuses calls on a closed store, or with a context that has ended.
func (s *store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("etcd registry: %w", err)
	}
	if s.over() {
		return fmt.Errorf("etcd registry: %w", fault.Closed)
	}
	return nil
}

// over reports whether the client is closed. Close ends the sessions before.
func (s *store) over() bool { return s.client.Ctx().Err() != nil }

// request bounds one exchange with the server, and closes a connection that swallowed it.
func (s *store) request(ctx context.Context, call func(context.Context) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := call(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.conns.cull(began)
	}
	return err
}

// List implements driver.Registry.
func (s *store) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return driver.Snapshot{}, err
	}
	var resp *clientv3.GetResponse
	err := s.request(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Get(ctx, s.root+prefix, clientv3.WithPrefix())
		return err
	})
	if err != nil {
		return driver.Snapshot{}, fmt.Errorf("etcd registry: list of %q: %w", prefix, s.kind(ctx, err))
	}
	// etcd tells no time, so the snapshot has that of this host.
	snap := driver.Snapshot{Revision: resp.Header.Revision, Time: time.Now().UnixMilli(), Entries: make([]driver.Entry, len(resp.Kvs))}
	for i, kv := range resp.Kvs {
		// The value belongs to the caller, but not its capacity, which other values may share.
		snap.Entries[i] = driver.Entry{
			Key: string(kv.Key[len(s.root):]), Value: kv.Value[:len(kv.Value):len(kv.Value)],
			Version: version(kv.ModRevision), Session: sessionID(clientv3.LeaseID(kv.Lease)),
		}
	}
	return snap, nil
}

// Close implements driver.Registry. If the server does not answer, the sessions end with their TTL.
func (s *store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.own.End(ctx); err != nil {
		s.log.Warn("can't end sessions in etcd; they end with their TTL", "error", err)
	}
	err := s.client.Close()
	s.wg.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd registry: close: %w", err)
	}
	return nil
}
