package ringfence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sort"
	"strings"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/embedded"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/topic"
)

// Durability says what an acknowledged produce has survived.
type Durability = driver.Durability

// Durabilities.
const (
	Sync = driver.Sync // on stable storage before the ack (default)
	OS   = driver.OS   // survives kill -9, not power loss
)

// Config is everything that a client can be told. The same fields are the command line's flags
// (--data, --log …), its environment (RINGFENCE_DATA …) and its YAML file.
type Config struct {
	// Dir is a directory that holds records and coordination when Log and Registry name no
	// others. Default "./ringfence-data". It is made when it is missing, see MustExist.
	Dir string
	// Log is the URL of the commit log: file:///var/lib/rf, mem:, or a scheme of Backends. Default: Dir.
	Log string
	// Registry is the URL of the coordination store: file:///var/lib/rf, mem:, or a scheme of Backends. Default: Dir.
	Registry string
	// Durability of records: Sync (default) or OS.
	Durability Durability
	// Namespace isolates users of one log and registry: their topics and groups don't meet. Default "".
	Namespace string
	// AllowShared takes data directories and database files as they are, also when another user owns
	// them or can open them, which is refused otherwise.
	AllowShared bool
	// StrictTLS refuses a URL with which a password or token would go to another host without TLS, or could
	// be made to. Otherwise Open warns about it, once for each store.
	StrictTLS bool
	// MustExist makes Open fail with ErrNotFound, not make an empty store, when Dir is missing.
	MustExist bool
	// Backends are the stores known besides file: and mem:, by scheme. Package backends has a list of all
	// that are in this module.
	Backends []Backend
	// Logger gets what people should know. Default: discard.
	Logger *slog.Logger
}

// Backend opens stores whose URLs have its scheme; either function may be nil.
type Backend struct {
	Scheme       string
	OpenLog      func(ctx context.Context, u *url.URL, o driver.Options) (*commitlog.Log, error)
	OpenRegistry func(ctx context.Context, u *url.URL, o registrydriver.Options) (*registry.Registry, error)
}

const defaultDir = "ringfence-data"

// withDefaults fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		c.Dir = defaultDir
	}
	if c.Durability == "" {
		c.Durability = Sync
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("data directory %q: %w", c.Dir, err)
	}
	fileURL := (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
	if c.Log == "" {
		c.Log = fileURL
	}
	if c.Registry == "" {
		c.Registry = fileURL
	}
	return c, nil
}

// Validate reports every fault of c at once; nil when there is none.
func (c Config) Validate() error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	var errs []error
	backends := c.backends()
	if c.Durability != Sync && c.Durability != OS {
		errs = append(errs, fmt.Errorf("durability %s: expected %q or %q: %w", storeurl.Quote(string(c.Durability)), Sync, OS, ErrInvalid))
	}
	if _, b, err := lookUp("log", c.Log, backends); err != nil {
		errs = append(errs, err)
	} else if b.OpenLog == nil {
		errs = append(errs, fmt.Errorf("log %q: %s: is no commit log; expected one of %s: %w", storeurl.RedactText(c.Log), b.Scheme, schemes(backends, true), ErrInvalid))
	}
	if _, b, err := lookUp("registry", c.Registry, backends); err != nil {
		errs = append(errs, err)
	} else if b.OpenRegistry == nil {
		errs = append(errs, fmt.Errorf("registry %q: %s: is no registry; expected one of %s: %w", storeurl.RedactText(c.Registry), b.Scheme, schemes(backends, false), ErrInvalid))
	}
	if (c.Log == "mem:") != (c.Registry == "mem:") {
		errs = append(errs, fmt.Errorf("log %s with registry %s: one would outlive the other; use mem: for both or for none: %w", storeurl.RedactText(c.Log), storeurl.RedactText(c.Registry), ErrInvalid))
	}
	errs = append(errs, topic.CheckNamespace(c.Namespace))
	return errors.Join(errs...)
}

// backends are the stores that need no client library, and those that were given.
func (c Config) backends() []Backend {
	dirs := embedded.Directories{MustExist: c.MustExist}
	return append([]Backend{
		{Scheme: "file", OpenLog: dirs.OpenLog, OpenRegistry: dirs.OpenRegistry},
		{Scheme: "mem", OpenLog: embedded.OpenMemLog, OpenRegistry: embedded.OpenMemRegistry},
	}, c.Backends...)
}

// unescaped is what to do about a URL whose password is likely not written as one: the parser stumbles over it.
func unescaped(raw string) string {
	if strings.Contains(raw, "@") {
		return "; in a user or password write / as %2F, @ as %40, : as %3A, % as %25"
	}
	return ""
}

// lookUp parses a store's URL and finds who opens it. Errors never show credentials.
func lookUp(what, raw string, backends []Backend) (*url.URL, Backend, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return nil, Backend{}, fmt.Errorf("%s %q: expected a URL such as file:///var/lib/rf%s: %w", what, storeurl.RedactText(raw), unescaped(raw), ErrInvalid)
	}
	for _, b := range backends {
		if b.Scheme == u.Scheme {
			return u, b, nil
		}
	}
	if how := elsewhere(u.Scheme); how != "" {
		return nil, Backend{}, fmt.Errorf("%s %q: this program has no client for %s: %s: %w", what, storeurl.RedactText(raw), u.Scheme, how, ErrInvalid)
	}
	return nil, Backend{}, fmt.Errorf("%s %q: unknown scheme %q; expected one of %s: %w", what, storeurl.RedactText(raw), u.Scheme, schemes(backends, what == "log"), ErrInvalid)
}

// elsewhere says how a program gets the client of a store that it does not have.
func elsewhere(scheme string) string {
	switch scheme {
	case "kafka", "etcd", "etcds", "postgres", "postgresql", "redis", "rediss", "mysql", "mariadb", "sqlite":
		return `the program ringfence has it (make build); in Go set Config.Backends to backends.All() of "github.com/ringfence/ringfence/backends"`
	case "pulsar", "pulsar+ssl":
		return `the program ringfence-pulsar has it (make build-pulsar); in Go it is the module "github.com/ringfence/ringfence/commitlog/pulsarlog", whose OpenURL goes into Config.Backends`
	case "oracle":
		return `in Go it is the module "github.com/ringfence/ringfence/registry/sqlregistry/oracle", whose OpenURL goes into Config.Backends; no program of ours has it`
	}
	return ""
}

func schemes(backends []Backend, log bool) string {
	var names []string
	for _, b := range backends {
		if (log && b.OpenLog != nil) || (!log && b.OpenRegistry != nil) {
			names = append(names, b.Scheme+":")
		}
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}
