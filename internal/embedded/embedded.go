// Package embedded opens the stores without a server or a client library: a directory, and memory.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/fileregistry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// Directories opens file: URLs.
type Directories struct {
	MustExist bool // a directory without data is fault.NotFound, and not made
}

// OpenLog opens the log in a directory.
func (d Directories) OpenLog(ctx context.Context, u *url.URL, o driver.Options) (*commitlog.Log, error) {
	q, err := storeurl.Parameters(u, "durability", "segment", "allow-shared")
	if err != nil {
		return nil, err
	}
	cfg := filelog.Config{Options: o}
	if v := q.Get("durability"); v != "" {
		cfg.Durability = driver.Durability(v)
	}
	if err := allowShared(u, q, &cfg.AllowShared); err != nil {
		return nil, err
	}
	if v := q.Get("segment"); v != "" {
		if cfg.SegmentBytes, err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, fmt.Errorf("%s: segment=%s: expected a number of bytes: %w", storeurl.Redact(u), v, fault.Invalid)
		}
	}
	if cfg.Dir, err = d.find(u, "log"); err != nil {
		return nil, err
	}
	return filelog.Open(ctx, cfg)
}

// OpenRegistry opens the registry in a directory.
func (d Directories) OpenRegistry(ctx context.Context, u *url.URL, o registrydriver.Options) (*registry.Registry, error) {
	q, err := storeurl.Parameters(u, "durability", "allow-shared")
	if err != nil {
		return nil, err
	}
	cfg := fileregistry.Config{Options: o}
	if err := allowShared(u, q, &cfg.AllowShared); err != nil {
		return nil, err
	}
	switch v := driver.Durability(q.Get("durability")); v {
	case "", driver.Sync:
	case driver.OS:
		cfg.NoSync = true
	default:
		return nil, fmt.Errorf("%s: durability=%s: expected %q or %q: %w", storeurl.Redact(u), v, driver.Sync, driver.OS, fault.Invalid)
	}
	if cfg.Dir, err = d.find(u, "registry"); err != nil {
		return nil, err
	}
	return fileregistry.Open(ctx, cfg)
}

// allowShared reads the parameter of that name, which may only add to what the configuration allows.
func allowShared(u *url.URL, q url.Values, allow *bool) error {
	yes, err := storeurl.Bool(u, q, "allow-shared")
	*allow = *allow || yes
	return err
}

// find returns the directory that a file: URL names: file:///abs, or file:rel below the working
// directory. part is what has to be in it when it must exist.
func (d Directories) find(u *url.URL, part string) (string, error) {
	dir := u.Path
	if u.Opaque != "" {
		dir = u.Opaque
	}
	if dir == "" || u.Host != "" {
		return "", fmt.Errorf("%s: expected file:///an/absolute/directory: %w", storeurl.Redact(u), fault.Invalid)
	}
	dir = filepath.FromSlash(dir)
	if !d.MustExist {
		return dir, nil
	}
	_, noLink := os.Readlink(dir)
	_, absent := os.Stat(dir)
	if noLink == nil && errors.Is(absent, fs.ErrNotExist) {
		return dir, nil // a link to nothing, such as a disk that is not mounted
	}
	has := func(part string) bool {
		_, err := os.Stat(filepath.Join(dir, part))
		return !errors.Is(err, fs.ErrNotExist)
	}
	switch {
	case has(part):
	case part == "log" && has("registry"):
		return "", fmt.Errorf("%s has a registry and no log: put the log back: %w", dir, fault.NotFound)
	case part == "registry" && has("log"):
		return "", fmt.Errorf("%s has a log and no registry: put that back, or go on with what the log has by \"ringfence topic create\": %w", dir, fault.NotFound)
	default:
		return "", fmt.Errorf("%s holds no Ringfence data yet: %w (create a topic first, or name another directory)", dir, fault.NotFound)
	}
	return dir, nil // opening it reports other errors better
}

// OpenMemLog makes a log in memory.
func OpenMemLog(_ context.Context, u *url.URL, _ driver.Options) (*commitlog.Log, error) {
	if _, err := storeurl.Parameters(u); err != nil {
		return nil, err
	}
	return memlog.New(), nil
}

// OpenMemRegistry makes a registry in memory.
func OpenMemRegistry(_ context.Context, u *url.URL, o registrydriver.Options) (*registry.Registry, error) {
	if _, err := storeurl.Parameters(u); err != nil {
		return nil, err
	}
	h, err := memregistry.NewStore().OpenOptions(o)
	if err != nil {
		return nil, err
	}
	return h.Registry, nil
}
