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

// Config says which database holds the registry: either MySQL or File.
type Config struct {
	// MySQL is how a MariaDB or MySQL server is reached. Its DBName is a database that exists;
	// the tables, whose names begin with ringfence_, are made in it. What the registry depends on
	// (isolation, how parameters are sent) is set whatever it says.
	MySQL *mysql.Config
	// File is the path of a SQLite database on a local disk. It is made when it is missing, and
	// with it files whose names begin with its own.
	File string
	// NoSync, for File, leaves it to the operating system when transactions reach the disk: they
	// survive kill -9 but the last of them not a power loss.
	NoSync bool

	driver.Options
}

// Open opens the store and makes its tables when there are none. ErrInvalid for bad options, a
// newer schema or a network file system; ErrUnavailable when the database does not answer.
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
