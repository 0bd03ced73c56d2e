// Package oracle is a registry in the tables of an Oracle database. It is experimental: no real
// Oracle was at hand when it was made. Its statements are tested against H2 in Oracle mode.
//
// There is no notice of a crash beyond the TTL of sessions, by the server's clock, and processes
// look for changes of each other a few times a second.
package oracle

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	go_ora "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// Config says which database holds the registry.
type Config struct {
	Host     string
	Port     int // 0: 1521
	Service  string
	User     string // whose schema gets the tables, whose names begin with RINGFENCE_
	Password string
	// PasswordFile holds Password in its place, and is read for each connection. Other users must not be
	// able to read it.
	PasswordFile string
	// Options are those of the client, such as "ssl", "ssl verify" and "wallet".
	// https://github.com/sijms/go-ora describes them.
	ClientOptions map[string]string

	driver.Options
}

// Between two looks for changes: soon after one, and after a while without any.
const (
	lookSoon = 20 * time.Millisecond
	lookLate = 500 * time.Millisecond
	maxConns = 8
)

// Open opens the store and makes its tables when there are none. ErrInvalid for bad options or a
// newer schema; ErrUnavailable when the database does not answer.
func Open(ctx context.Context, cfg Config) (*registry.Registry, error) {
	if cfg.Host == "" || cfg.Service == "" || cfg.User == "" {
		return nil, fmt.Errorf("oracle registry: expected a host, a service and a user: %w", fault.Invalid)
	}
	cfg.Port = cmp.Or(cfg.Port, 1521)
	if err := storeurl.CheckPassword(cfg.PasswordFile); err != nil {
		return nil, fmt.Errorf("oracle registry: %w", err)
	}
	if on, _ := strconv.ParseBool(cfg.ClientOptions["ssl"]); !on {
		if err := storeurl.Plaintext("oracle registry", []string{cfg.Host}, cfg.StrictTLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	return open(ctx, sql.OpenDB(connector{cfg}), dialect(), cfg.Options)
}

// connector logs in with the password that the file has at that moment, if there is one.
type connector struct{ cfg Config }

func (c connector) Connect(ctx context.Context) (_ sqldriver.Conn, err error) {
	password := c.cfg.Password
	if c.cfg.PasswordFile != "" {
		if password, err = storeurl.ReadPassword(c.cfg.PasswordFile); err != nil {
			return nil, err
		}
	}
	return go_ora.NewConnector(go_ora.BuildUrl(c.cfg.Host, c.cfg.Port, c.cfg.Service, c.cfg.User, password, c.cfg.ClientOptions)).Connect(ctx)
}

func (c connector) Driver() sqldriver.Driver { return go_ora.NewDriver() }

// OpenURL opens oracle://user:password@host:1521/service with the parameters ssl and ssl-verify
// (true or false) and wallet (a directory).
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	q, err := storeurl.Parameters(u, "ssl", "ssl-verify", "wallet", storeurl.PasswordFile)
	if err != nil {
		return nil, err
	}
	cfg := Config{Host: u.Hostname(), Service: strings.Trim(u.Path, "/"), ClientOptions: make(map[string]string), Options: o}
	if u.Port() != "" {
		if cfg.Port, err = net.LookupPort("tcp", u.Port()); err != nil {
			return nil, fmt.Errorf("%s: port: %w", storeurl.Redact(u), fault.Invalid)
		}
	}
	if u.User != nil {
		cfg.User = u.User.Username()
		cfg.Password, _ = u.User.Password()
	}
	if cfg.PasswordFile, err = storeurl.FileOfPassword(u, q); err != nil {
		return nil, err
	}
	q.Del(storeurl.PasswordFile)
	for name := range q {
		v := q.Get(name)
		if name != "wallet" {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %s=%s: expected true or false: %w", storeurl.Redact(u), name, v, fault.Invalid)
			}
			v = strconv.FormatBool(on)
		}
		cfg.ClientOptions[strings.ReplaceAll(name, "-", " ")] = v
	}
	return Open(ctx, cfg)
}

func open(ctx context.Context, db *sql.DB, d *sqlstore.Dialect, o driver.Options) (*registry.Registry, error) {
	s, err := openStore(ctx, db, d, o)
	if err != nil {
		return nil, err
	}
	inner, err := kv.Namespace(s, o.Namespace)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return registry.New(inner), nil
}

func openStore(ctx context.Context, db *sql.DB, d *sqlstore.Dialect, o driver.Options) (*sqlstore.Store, error) {
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	return sqlstore.Open(ctx, sqlstore.Config{
		Dialect: d, DB: db, Reads: db, Handle: rand.Text()[:16], Logger: o.Logger,
		Signals: &sqlstore.Poll{Min: lookSoon, Max: lookLate},
	})
}

// now is SYSTIMESTAMP in microseconds since 1970. All of a statement sees the same one.
func now() string {
	const since = "(CAST(SYSTIMESTAMP AT TIME ZONE 'UTC' AS TIMESTAMP) - TIMESTAMP '1970-01-01 00:00:00')"
	part := func(unit string, seconds int) string {
		return fmt.Sprintf("CAST(FLOOR(EXTRACT(%s FROM %s)) AS NUMBER(19)) * %d", unit, since, seconds*1_000_000)
	}
	return "(" + part("DAY", 86400) + " + " + part("HOUR", 3600) + " + " + part("MINUTE", 60) + " + " + part("SECOND", 1) +
		" + CAST(TO_CHAR(SYSTIMESTAMP, 'FF6') AS NUMBER(19)))"
}

// dialect keeps to what needs no version newer than 12c. Nothing is ever compared with the empty
// string, which is NULL; keys and versions are never empty, and no session is NULL.
func dialect() *sqlstore.Dialect {
	d := &sqlstore.Dialect{
		Name: "Oracle",
		Schema: []string{
			`CREATE TABLE ringfence_entries (
				k RAW(700) NOT NULL PRIMARY KEY, version VARCHAR2(40) NOT NULL, session_id VARCHAR2(40), content BLOB)`,
			`CREATE INDEX ringfence_bound ON ringfence_entries (session_id)`,
			`CREATE TABLE ringfence_sessions (
				id VARCHAR2(40) NOT NULL PRIMARY KEY, process VARCHAR2(40) NOT NULL, ttl NUMBER(19) NOT NULL, expires NUMBER(19) NOT NULL)`,
			`CREATE TABLE ringfence_changes (revision NUMBER(19) NOT NULL PRIMARY KEY, change_keys BLOB)`,
			`CREATE TABLE ringfence_revision (id NUMBER(10) NOT NULL PRIMARY KEY, revision NUMBER(19) NOT NULL)`,
			`CREATE TABLE ringfence_slots (id NUMBER(10) NOT NULL PRIMARY KEY, used NUMBER(10) NOT NULL)`,
			`CREATE TABLE ringfence_schema (id NUMBER(10) NOT NULL PRIMARY KEY, version NUMBER(10) NOT NULL)`,
		},
		Ignore:    func(err error) bool { c := code(err); return c == oraNameUsed || c == oraIndexed || c == oraUnique },
		Bind:      func(n int) string { return ":" + strconv.Itoa(n) },
		Now:       now,
		Day:       func() string { return "TRUNC(" + now() + " / 1000)" },
		ForUpdate: " FOR UPDATE",
		ForShare:  " FOR UPDATE", // Oracle has no shared locks on rows
		Slots:     true,
		MaxUpsert: 1,
		Twice:     true,
		Blob: func(b []byte) any {
			return go_ora.Blob{Data: b, Valid: len(b) > 0}
		},
		Fate: fate,
	}
	d.Upsert = func(int) string { return merge(d.Bind) }
	return d
}

// merge writes one row. The client sends parameters by their place, so that each stands for itself.
func merge(p func(int) string) string {
	return "MERGE INTO ringfence_entries e USING DUAL ON (e.k = " + p(1) + ")" +
		" WHEN MATCHED THEN UPDATE SET version = " + p(2) + ", session_id = " + p(3) + ", content = " + p(4) +
		" WHEN NOT MATCHED THEN INSERT (k, version, session_id, content) VALUES (" + p(5) + ", " + p(6) + ", " + p(7) + ", " + p(8) + ")"
}

// The errors that mean something to us.
const (
	oraUnique    = 1
	oraDeadlock  = 60
	oraNameUsed  = 955
	oraIndexed   = 1408
	oraCorrupt   = 1578
	oraSerialize = 8177
	oraLockWait  = 30006
)

func code(err error) int {
	var e *network.OracleError
	if errors.As(err, &e) {
		return e.ErrCode
	}
	return 0
}

func fate(err error) sqlstore.Fate {
	switch code(err) {
	case oraDeadlock, oraSerialize, oraLockWait:
		return sqlstore.Again
	case oraCorrupt:
		return sqlstore.Damaged
	}
	return sqlstore.Failed
}
