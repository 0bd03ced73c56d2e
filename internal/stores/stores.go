// Package stores opens the log and the registry that two URLs name.
//
// The scheme of a URL chooses the backend: file: and mem: are known here, Config.Backends has the others. A
// fault in a URL is an error before anything is opened, and shows no secret of it.
package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/embedded"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// defaultDir is where records and coordination are kept when nothing else is said.
const defaultDir = "ringfence-data"

// Backend opens stores whose URLs have its scheme; either function may be nil.
type Backend struct {
	Scheme       string
	OpenLog      func(ctx context.Context, u *url.URL, o driver.Options) (*commitlog.Log, error)
	OpenRegistry func(ctx context.Context, u *url.URL, o registrydriver.Options) (*registry.Registry, error)
}

// Config says which stores, and how they are opened: as ringfence.Config does, field by field.
type Config struct {
	Dir, Log, Registry                string
	Durability                        driver.Durability
	Namespace                         string
	AllowShared, StrictTLS, MustExist bool
	Backends                          []Backend // besides file: and mem:
	Logger                            *slog.Logger
}

// Stores are a log and a registry that can be opened.
type Stores struct {
	Config                      // complete
	log, registry               Backend
	logAddress, registryAddress *url.URL
}

// Find fills in the defaults of c and finds the backends of its stores. fault.Invalid with every fault.
func Find(c Config) (*Stores, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Stores{Config: c}
	errs := make([]error, 4)
	if c.Durability != driver.Sync && c.Durability != driver.OS {
		errs[0] = fmt.Errorf("durability %s: expected %q or %q: %w", storeurl.Quote(string(c.Durability)), driver.Sync, driver.OS, fault.Invalid)
	}
	s.logAddress, s.log, errs[1] = c.find(kindLog, c.Log)
	s.registryAddress, s.registry, errs[2] = c.find(kindRegistry, c.Registry)
	if (c.Log == "mem:") != (c.Registry == "mem:") {
		errs[3] = fmt.Errorf("log %q with registry %q: one would outlive the other; use mem: for both or for none: %w", storeurl.RedactText(c.Log), storeurl.RedactText(c.Registry), fault.Invalid)
	}
	return s, errors.Join(errs...)
}

func (c Config) withDefaults() (Config, error) {
	c.Dir = cmp.Or(c.Dir, defaultDir)
	c.Durability = cmp.Or(c.Durability, driver.Sync)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("data directory %q: %w", c.Dir, err)
	}
	fileURL := (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
	c.Log, c.Registry = cmp.Or(c.Log, fileURL), cmp.Or(c.Registry, fileURL)
	dirs := embedded.Directories{MustExist: c.MustExist}
	c.Backends = append([]Backend{
		{Scheme: "file", OpenLog: dirs.OpenLog, OpenRegistry: dirs.OpenRegistry},
		{Scheme: "mem", OpenLog: embedded.OpenMemLog, OpenRegistry: embedded.OpenMemRegistry},
	}, c.Backends...)
	return c, nil
}

// In are the same stores for another namespace.
func (s *Stores) In(namespace string) *Stores {
	other := *s
	other.Namespace = namespace
	return &other
}

// OpenLog opens the log. The caller closes it.
func (s *Stores) OpenLog(ctx context.Context) (*commitlog.Log, error) {
	log, err := s.log.OpenLog(ctx, s.logAddress, driver.Options{Durability: s.Durability, Logger: s.Logger, AllowShared: s.AllowShared, StrictTLS: s.StrictTLS})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", storeurl.RedactText(s.Log), err)
	}
	return log, nil
}

// OpenRegistry opens the registry. The caller closes it.
func (s *Stores) OpenRegistry(ctx context.Context) (*registry.Registry, error) {
	reg, err := s.registry.OpenRegistry(ctx, s.registryAddress, registrydriver.Options{Namespace: s.Namespace, Logger: s.Logger, AllowShared: s.AllowShared, StrictTLS: s.StrictTLS})
	if err != nil {
		return nil, fmt.Errorf("open registry %s: %w", storeurl.RedactText(s.Registry), err)
	}
	return reg, nil
}
