package ringfence

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// builtin are the stores that need no client library.
func builtin(mustExist bool) []Backend {
	return []Backend{
		{
			Scheme: "mem",
			OpenLog: func(_ context.Context, u *url.URL, _ driver.Options) (*commitlog.Log, error) {
				if err := noParameters(u); err != nil {
					return nil, err
				}
				return memlog.New(), nil
			},
			OpenRegistry: func(_ context.Context, u *url.URL, o registrydriver.Options) (*registry.Registry, error) {
				if err := noParameters(u); err != nil {
					return nil, err
				}
				h, err := memregistry.NewStore().OpenOptions(o)
				if err != nil {
					return nil, err
				}
				return h.Registry, nil
			},
		},
	}
}

// noParameters refuses a query: an option that nobody reads must not pass for one that works.
func noParameters(u *url.URL) error {
	if len(u.Query()) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(u.Query()))
	return fmt.Errorf("%s: unknown parameter %s; expected none: %w", u.Redacted(), strings.Join(names, ", "), ErrInvalid)
}
