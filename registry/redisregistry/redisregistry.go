// Package redisregistry is a registry in Redis 7 or Valkey, alone, behind Sentinel or in a Cluster.
//
// All keys of a namespace share a hash tag, so that one Lua script sees them at one point in time.
// Every change is such a script; expiry is judged by the server's clock alone. A process has two
// connections: one for calls, which the client library pipelines, and the link, which carries
// what is pushed: changes for the watches, and by being there the proof that the process lives.
// The goroutines of a registry: the link, which also takes its turn at the failure detector for processes
// that died, and one for each session; Close joins them all.
package redisregistry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// Config says where the store is.
type Config struct {
	// Addresses are host:port of the server; of some nodes of a Cluster; or of Sentinels, with
	// MasterSet. At least one.
	Addresses []string
	// MasterSet is the name under which Sentinels know the master; "" means there are none.
	MasterSet string
	// Username and Password log in to Redis; both may be empty.
	Username, Password string
	// SentinelUsername and SentinelPassword log in to the Sentinels.
	SentinelUsername, SentinelPassword string
	// PasswordFile holds Password in its place, and is read for each connection; behind Sentinels, once. Other
	// users must not be able to read it.
	PasswordFile string
	// DB is the number of the logical database; a Cluster has 0 only.
	DB int
	// TLS is used when it is not nil. A missing ServerName is taken from the address.
	TLS *tls.Config
	// Timeout is how long a call waits for the server: after it a write counts as unknown, and
	// the connection is given up. It should be well below the TTL of sessions. Default 2 s.
	Timeout time.Duration

	driver.Options
}

const defaultTimeout = 2 * time.Second

// Validate reports every fault of c at once; nil when there is none.
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

// Open connects to the store and makes what is missing in it. ErrUnavailable when no server
// answers; ErrInvalid when one does that is too old, holds a newer format or refuses the login.
// Settings of the server that can lose what was acknowledged are told to the log.
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
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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

// hasSecrets says whether it logs in. A user that stands alone may be a token.
func (c *Config) hasSecrets() bool {
	return c.Username+c.Password+c.PasswordFile+c.SentinelUsername+c.SentinelPassword != ""
}

// credentials reads the password for each connection.
func credentials(user, file string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := storeurl.ReadPassword(file)
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
}

// loginCalls is how many calls a login may take, of which each may wait for the server as long as it may; finding
// each address comes on top. A server that says a byte now and then breaks the time-out of none.
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
		// A repeated call is the business of whoever knows what it means.
		DisableRetry: true,
		// A connection that broke is noticed while it is idle, and not by the next call.
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
		if cfg.MasterSet == "" { // the library would show it to the Sentinels too
			o.AuthCredentialsFn = credentials(cfg.Username, cfg.PasswordFile)
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
		fmt.Errorf("it speaks, and says nothing: %w", fault.Unavailable))
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
	if r.err != nil {
		return nil, classify("connecting to "+addresses(cfg), r.err, fault.Unavailable)
	}
	return r.c, nil
}
