package pgregistry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

const (
	defaultSchema   = "ringfence"
	defaultMaxConns = 4
)

// schemaPattern leaves room for the channel's prefix in an identifier of 63 bytes.
var schemaPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// known are the parameters of a URL: those of libpq that say how to connect, and three of ours. pgx would
// send any other to the server as a setting, where a misspelt one is an error at best.
var known = []string{
	"host", "port", "user", "password", "dbname", "database", "passfile", "service", "servicefile",
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslsni", "sslnegotiation", "channel_binding",
	"connect_timeout", "target_session_attrs", "application_name", "krbspn", "krbsrvname",
	"schema", "pool_max_conns", storeurl.PasswordFile,
}

// OpenURL opens the store that a URL of the command line names:
//
//	postgres://user:password@host:port/database?schema=ringfence&pool_max_conns=4
//
// The other parameters are those of libpq that say how to connect, TLS among them (sslmode,
// sslrootcert, sslcert, sslkey …). ErrInvalid for one that is not known.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	q, err := storeurl.Parameters(u, known...)
	if err != nil {
		return nil, err
	}
	cfg := Config{Schema: q.Get("schema"), Options: o}
	if text := q.Get("pool_max_conns"); text != "" {
		if cfg.MaxConns, err = strconv.Atoi(text); err != nil || cfg.MaxConns < 1 {
			return nil, fmt.Errorf("%s: pool_max_conns is %q; expected a number from 1 on: %w", storeurl.Redact(u), text, driver.ErrInvalid)
		}
	}
	if cfg.PasswordFile, err = storeurl.FileOfPassword(u, q); err != nil {
		return nil, err
	}
	q.Del(storeurl.PasswordFile)
	q.Del("schema")
	q.Del("pool_max_conns")
	bare := *u
	bare.RawQuery = q.Encode()
	cfg.URL = bare.String()
	return Open(ctx, cfg)
}

// connConfig completes cfg and gives how to connect.
func connConfig(cfg *Config) (*pgx.ConnConfig, error) {
	cfg.Schema, cfg.MaxConns = cmp.Or(cfg.Schema, defaultSchema), cmp.Or(cfg.MaxConns, defaultMaxConns)
	if !schemaPattern.MatchString(cfg.Schema) {
		return nil, fmt.Errorf("postgres registry: schema %q; expected a letter or _, then at most 47 letters, digits and _: %w", cfg.Schema, driver.ErrInvalid)
	}
	if cfg.MaxConns < 0 || cfg.MaxConns > 1000 {
		return nil, fmt.Errorf("postgres registry: at most %d connections for calls; expected 1 to 1000: %w", cfg.MaxConns, driver.ErrInvalid)
	}
	// A list of keywords and values, which pgx takes too, is refused: its secrets can't be told from the rest.
	u, err := url.Parse(cfg.URL)
	if err != nil || cfg.URL != "" && u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("postgres registry: the URL can't be used; expected postgres://user@host:port/database: %w", driver.ErrInvalid)
	}
	q := u.Query()
	if key := q.Get("sslkey"); key != "" && !cfg.AllowShared {
		if _, err := storeurl.ReadPrivate("sslkey", key); err != nil {
			return nil, fmt.Errorf("postgres registry: %w: %w", err, driver.ErrInvalid)
		}
	}
	cc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		// The text repeats the URL with its secrets, between backticks. The reason stands behind it.
		text := err.Error()
		return nil, fmt.Errorf("postgres registry: the URL can't be used%s; expected postgres://user@host:port/database: %w",
			text[strings.LastIndex(text, "`")+1:], driver.ErrInvalid)
	}
	if err := unusedCA(q, cc); err != nil {
		return nil, err
	}
	build := cc.BuildFrontend
	cc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := build(r, w)
		f.SetMaxBodyLen(limits.PostgresMessageBytes)
		return f
	}
	if err := storeurl.CheckPassword(cfg.PasswordFile); err != nil {
		return nil, fmt.Errorf("postgres registry: %w", err)
	}
	if cc.Password != "" || cfg.PasswordFile != "" {
		if err := storeurl.Plaintext("postgres registry", inTheClear(cc), cfg.StrictTLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	cc.ConnectTimeout = cmp.Or(cc.ConnectTimeout, 5*time.Second)
	// A server that takes no writes is a replica, and its data may be old.
	cc.ValidateConnect = writable
	// One round trip, and no state on the server, so that it works behind a proxy. The plans that
	// matter are inside the functions, and the server keeps those.
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	return cc, nil
}

// writable fails if the server takes no writes. (The check of pgx panics without a row.)
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "show transaction_read_only").ReadAll()
	switch {
	case err != nil:
		return err
	case len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1:
		return errors.New("the server does not say whether it takes writes: expected one row of one column")
	case string(results[0].Rows[0][0]) == "on":
		return errors.New("the server takes no writes: it is a replica, or default_transaction_read_only is on")
	}
	return nil
}

// unusedCA is the error for a CA if a connection may be made to a server that is not verified with it.
func unusedCA(q url.Values, cc *pgx.ConnConfig) error {
	ca, from := os.Getenv("PGSSLROOTCERT"), "PGSSLROOTCERT"
	if q.Has("sslrootcert") {
		ca, from = q.Get("sslrootcert"), "sslrootcert"
	}
	if ca == "" {
		return nil
	}
	configs := []*tls.Config{cc.TLSConfig}
	for _, f := range cc.Fallbacks {
		configs = append(configs, f.TLSConfig)
	}
	for _, t := range configs {
		if t == nil || t.InsecureSkipVerify && t.VerifyPeerCertificate == nil {
			mode := cmp.Or(q.Get("sslmode"), os.Getenv("PGSSLMODE"), "prefer, the default")
			return fmt.Errorf("postgres registry: %s is given, but with sslmode=%s a server may go unverified; expected sslmode=verify-full and no sockets, or no CA: %w",
				from, mode, driver.ErrInvalid)
		}
	}
	return nil
}

// inTheClear are the hosts that may be connected to without TLS: sslmode=prefer falls back to that.
func inTheClear(cc *pgx.ConnConfig) []string {
	var hosts []string
	if cc.TLSConfig == nil {
		hosts = append(hosts, cc.Host)
	}
	for _, f := range cc.Fallbacks {
		if f.TLSConfig == nil {
			hosts = append(hosts, f.Host)
		}
	}
	return hosts
}

// connect connects, with the password that the file of Config holds now.
func (s *store) connect(ctx context.Context, cc *pgx.ConnConfig) (*pgx.Conn, error) {
	cc = cc.Copy()
	if err := s.setPassword(ctx, cc); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cc)
}

func (s *store) setPassword(_ context.Context, cc *pgx.ConnConfig) (err error) {
	if s.passwordFile != "" {
		cc.Password, err = storeurl.ReadPassword(s.passwordFile)
	}
	return err
}
