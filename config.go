package ringfence

import (
	"context"
	"errors"
	"log/slog"
	"net/url"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/stores"
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

// Validate reports every fault of c at once; nil when there is none.
func (c Config) Validate() error {
	_, err := c.stores()
	return err
}

// stores finds what c names.
func (c Config) stores() (*stores.Stores, error) {
	backends := make([]stores.Backend, len(c.Backends))
	for i, b := range c.Backends {
		backends[i] = stores.Backend(b)
	}
	s, err := stores.Find(stores.Config{
		Dir: c.Dir, Log: c.Log, Registry: c.Registry, Durability: c.Durability, Namespace: c.Namespace,
		AllowShared: c.AllowShared, StrictTLS: c.StrictTLS, MustExist: c.MustExist, Backends: backends, Logger: c.Logger,
	})
	return s, errors.Join(err, topic.CheckNamespace(c.Namespace))
}
