// Package redisregistry is a registry in Redis 7 or Valkey: a single server, Sentinels, or a Cluster.
//
// All keys of a namespace share a hash tag, so that one Lua script sees them at one point in time. Each
// change is such a script, and only the server's clock decides about expiry. A process has two connections.
// One is for calls, which the client library pipelines. The other, the link, carries pushed messages, and
// shows that the process lives. A registry has one goroutine for the link, which also runs the failure
// detector, and one for each session. Close joins them all.
package redisregistry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// Config tells where the store is, and how to log in.
type Config struct {
	// Addresses are host:port of the server; of some nodes of a Cluster; or of Sentinels, with
	// MasterSet. At least one.
	Addresses []string
	// MasterSet is the name of the master at the Sentinels; "": there are none.
	MasterSet string
	// Username and Password log in to Redis; both may be empty.
	Username, Password string
	// SentinelUsername and SentinelPassword log in to the Sentinels.
	SentinelUsername, SentinelPassword string
	// PasswordFile names a file with the password, in place of Password. Each connection reads it, or with
	// Sentinels Open alone. Its mode must keep other users out.
	PasswordFile string
	// DB is the number of the logical database; a Cluster has 0 only.
	DB int
	// TLS is used when it is not nil. A missing ServerName is taken from the address.
	TLS *tls.Config
	// Timeout bounds the wait for an answer: after it a write is unknown, and the connection is closed.
	// It should be well below the TTL of sessions. Default 2 s.
	Timeout time.Duration

	driver.Options

	confirm time.Duration // other than the default of that name: for tests
}

const defaultTimeout = 2 * time.Second

// Validate reports all faults of c at once.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Addresses) == 0 {
		errs = append(errs, fmt.Errorf("redis registry: expected the address of a server, host:port: %w", fault.Invalid))
	}
	if c.DB < 0 {
		errs = append(errs, fmt.Errorf("redis registry: database %d: expected a number from 0: %w", c.DB, fault.Invalid))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("redis registry: time-out %s: expected more than 0: %w", c.Timeout, fault.Invalid))
	}
	if c.Password != "" && c.PasswordFile != "" {
		errs = append(errs, fmt.Errorf("redis registry: a password and a file with one; expected one of them: %w", fault.Invalid))
	}
	if err := storeurl.CheckPassword(c.PasswordFile); err != nil {
		errs = append(errs, fmt.Errorf("redis registry: %w", err))
	}
	return errors.Join(errs...)
}

// Open connects to the store. It fails with ErrUnavailable if no server answers or the login is refused, and
// with ErrInvalid for a bad configuration, an old server or another format. It logs settings of the server
// that can lose acknowledged writes.
func Open(ctx context.Context, cfg Config) (*registry.Registry, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return registry.New(s), nil
}

func open(ctx context.Context, cfg Config) (*store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Timeout, cfg.Logger = cmp.Or(cfg.Timeout, defaultTimeout), cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.TLS == nil && cfg.hasSecrets() {
		if err := storeurl.Plaintext("redis registry", cfg.Addresses, cfg.StrictTLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	names, err := newNames(cfg.Namespace, cfg.DB)
	if err != nil {
		return nil, err
	}
	s := newStore(names, cfg)
	s.gate = hook.GateOf(ctx)
	if s.client, err = connect(ctx, cfg, &s.conns); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	return s, nil
}

// hasSecrets reports whether there is a login. A user without a password may be a token.
func (c *Config) hasSecrets() bool {
	return c.Username+c.Password+c.PasswordFile+c.SentinelUsername+c.SentinelPassword != ""
}

// loginCalls bounds the calls of a login, each of which may take the time-out. The bound on the whole login
// ends one to a server that trickles bytes, which no time-out of a call notices.
const loginCalls = 8

// connect finds the server. The library looks for Redis Cluster first and then for one server.
func connect(ctx context.Context, cfg Config, conns *conns) (rueidis.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: cfg.Addresses,
		Username:    cfg.Username, Password: cfg.Password,
		SelectDB:  cfg.DB,
		TLSConfig: cfg.TLS,
		DialCtxFn: conns.dial,
		Sentinel: rueidis.SentinelOption{
			MasterSet: cfg.MasterSet,
			Username:  cfg.SentinelUsername, Password: cfg.SentinelPassword,
			TLSConfig:               cfg.TLS,
			TopologyRefreshInterval: 5 * time.Second, // a missed switch must not bind us to the old master
		},
		ClientName:    "ringfence",
		ClientSetInfo: rueidis.DisableClientSetInfo,
		DisableCache:  true, // it would answer reads from memory
		// Only the caller knows whether a call can be repeated.
		DisableRetry: true,
		// Notice a broken connection while it is idle, and not by the next call.
		AlwaysPipelining:   true,
		PipelineMultiplex:  -1, // one connection
		ConnWriteTimeout:   cfg.Timeout,
		ReadBufferEachConn: 1 << 16, WriteBufferEachConn: 1 << 16,
	}
	if cfg.PasswordFile != "" {
		var err error
		if o.Password, err = storeurl.ReadPassword(cfg.PasswordFile); err != nil {
			return nil, fmt.Errorf("redis registry: %w: %w", err, fault.Invalid)
		}
		if cfg.MasterSet == "" { // else the library shows it to the Sentinels too
			o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) { // for each connection
				password, err := storeurl.ReadPassword(cfg.PasswordFile)
				return rueidis.AuthCredentials{Username: cfg.Username, Password: password}, err
			}
		}
	}
	o.Dialer.Timeout = cfg.Timeout
	o.Sentinel.Dialer.Timeout = cfg.Timeout
	// The library sends a PING over connections that were idle for so long.
	o.Dialer.KeepAlive = 10 * time.Second
	type result struct {
		c   rueidis.Client
		err error
	}
	bounded, cancel := context.WithTimeoutCause(ctx, time.Duration(loginCalls+2*len(cfg.Addresses))*cfg.Timeout,
		fmt.Errorf("the login took too long: %w", fault.Unavailable))
	defer cancel()
	done := make(chan result, 1)
	go func() { // joined below: every dial is bounded by the time-out
		c, err := rueidis.NewClient(o)
		done <- result{c, err}
	}()
	stop := context.AfterFunc(bounded, conns.close)
	r := <-done
	if !stop() {
		if r.c != nil && r.err == nil {
			r.c.Close()
		}
		return nil, fmt.Errorf("redis registry: connecting to %s: %w", addresses(cfg), context.Cause(bounded))
	}
	if errors.Is(r.err, io.EOF) {
		r.err = fmt.Errorf("the server hung up without an answer, as one does that does not speak as Redis: %w", r.err)
	}
	if r.err != nil {
		return nil, classify("connecting to "+addresses(cfg), r.err, fault.Unavailable)
	}
	return r.c, nil
}
