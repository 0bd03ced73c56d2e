package pgregistry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
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

// known are the parameters of a URL: those that say how to connect, and two of ours. Others would
// reach the server as its settings, where a misspelt one is an error at best.
var known = []string{
	"host", "port", "user", "password", "dbname", "database", "passfile", "service", "servicefile",
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslsni", "sslnegotiation", "channel_binding", "require_auth",
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
	if cfg.Schema == "" {
		cfg.Schema = defaultSchema
	}
	if !schemaPattern.MatchString(cfg.Schema) {
		return nil, fmt.Errorf("postgres registry: schema %q; expected a letter or _, then at most 47 letters, digits and _: %w", cfg.Schema, driver.ErrInvalid)
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = defaultMaxConns
	}
	if cfg.MaxConns < 0 || cfg.MaxConns > 1000 {
		return nil, fmt.Errorf("postgres registry: at most %d connections for calls; expected 1 to 1000: %w", cfg.MaxConns, driver.ErrInvalid)
	}
	given, err := readSources(cfg.URL, cfg.AllowShared)
	given.password = given.password || cfg.PasswordFile != ""
	if err == nil {
		err = given.checkFiles(cfg.AllowShared)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres registry: %w", err)
	}
	cc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		// Its text repeats the URL, between backticks, and with it secrets. What is wrong stands behind.
		text := err.Error()
		return nil, fmt.Errorf("postgres registry: the URL can't be used%s; expected postgres://user@host:port/database: %w",
			text[strings.LastIndex(text, "`")+1:], driver.ErrInvalid)
	}
	if err := given.unusedCA(cc); err != nil {
		return nil, fmt.Errorf("postgres registry: %w", err)
	}
	build := cc.BuildFrontend
	cc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		bound := &answerBound{from: r, to: w}
		f := build(bound, bound)
		f.SetMaxBodyLen(limits.PostgresMessageBytes)
		return f
	}
	if err := requireAuth(cc); err != nil {
		return nil, err
	}
	if err := storeurl.CheckPassword(cfg.PasswordFile); err != nil {
		return nil, fmt.Errorf("postgres registry: %w", err)
	}
	if cc.Password != "" || cfg.PasswordFile != "" {
		if err := storeurl.Plaintext("postgres registry", inTheClear(cc), cfg.StrictTLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = 5 * time.Second
	}
	// A server that accepts no writes is a replica, and what it reads may be old.
	cc.ValidateConnect = writable
	// One round trip and nothing kept on the server: it works behind a proxy too. The plans that
	// matter are those inside of the functions, which the server keeps.
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	return cc, nil
}

// writable fails when the server takes no writes. (pgx has such a check too, which panics when there is
// no row.)
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

// inTheClear are the hosts that are, or may be, connected to without TLS: sslmode=prefer gives way.
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

// connect connects with the password that the file of Config has at this moment.
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
