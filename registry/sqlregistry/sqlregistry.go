package sqlregistry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// Config names the database that holds the registry: either MySQL or File.
type Config struct {
	// MySQL tells how to reach a MariaDB or MySQL server. Its DBName is an existing database, in which
	// Open makes the tables ringfence_*. The registry sets isolation and the form of parameters itself.
	MySQL *mysql.Config
	// File is the path of a SQLite database on a local disk. Open makes it if it is missing, and other
	// files beside it, whose names begin with its own.
	File string
	// NoSync, for File, leaves it to the system when transactions reach the disk: they survive kill -9, but
	// a power loss may lose the last ones.
	NoSync bool

	driver.Options
}

// Open opens the store, and makes its tables if they are missing. It fails with ErrInvalid for a bad
// configuration, a newer schema or a network file system, with ErrCorrupt for damaged tables, and with
// ErrUnavailable if the database does not answer.
func Open(ctx context.Context, cfg Config) (*registry.Registry, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d, err := kv.Namespace(s, cfg.Namespace)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return registry.New(d), nil
}

func open(ctx context.Context, cfg Config) (*sqlstore.Store, error) {
	switch {
	case (cfg.MySQL == nil) == (cfg.File == ""):
		return nil, fmt.Errorf("sql registry: expected either MySQL or File in its Config: %w", fault.Invalid)
	case cfg.MySQL != nil:
		return openMySQL(ctx, cfg)
	}
	return openSQLite(ctx, cfg)
}

// OpenURL opens mysql://user:password@host:3306/database?… (also mariadb://) or sqlite:///path?….
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	var cfg Config
	var err error
	switch u.Scheme {
	case "mysql", "mariadb":
		cfg.MySQL, err = mysqlConfig(u, o.AllowShared)
	case "sqlite":
		cfg, err = sqliteConfig(u)
	default:
		err = fmt.Errorf("sql registry: scheme %q; expected mysql, mariadb or sqlite: %w", u.Scheme, fault.Invalid)
	}
	if err != nil {
		return nil, err
	}
	o.AllowShared = o.AllowShared || cfg.AllowShared
	cfg.Options = o
	return Open(ctx, cfg)
}

func newHandle() string { return rand.Text()[:16] }
