package stores

import (
	"fmt"
	"net/url"
	"sort"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// kind is what a URL names.
type kind struct {
	field, name string
	opens       func(Backend) bool // whether a backend has such stores
}

var kindLog = kind{
	"log", "commit log", func(b Backend) bool { return b.OpenLog != nil },
}

var kindRegistry = kind{
	"registry", "registry", func(b Backend) bool { return b.OpenRegistry != nil },
}

// find parses the URL of a store and finds its backend. Errors never show credentials.
func (c Config) find(k kind, raw string) (*url.URL, Backend, error) {
	bad := func(format string, args ...any) (*url.URL, Backend, error) {
		return nil, Backend{}, fmt.Errorf("%s %q: %s: %w", k.field, storeurl.RedactText(raw), fmt.Sprintf(format, args...), fault.Invalid)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return bad("expected a URL such as file:///var/lib/rf%s", unescaped(raw))
	}
	for _, b := range c.Backends {
		switch {
		case b.Scheme != u.Scheme:
		case !k.opens(b):
			return bad("%s: is no %s; expected one of %s", b.Scheme, k.name, c.schemes(k))
		default:
			return u, b, nil
		}
	}
	return bad("unknown scheme %q; expected one of %s; %s", u.Scheme, c.schemes(k), clients)
}

// clients says how a program gets more schemes.
const clients = `in Go set Config.Backends: backends.All() of "github.com/ringfence/ringfence/backends" has the stores of this module, as the program ringfence does; ` +
	"pulsar: (commitlog/pulsarlog, the program ringfence-pulsar) and oracle: (registry/sqlregistry/oracle) are modules of their own"

// unescaped is what to do about a URL whose password is likely not written as one: the parser stumbles over it.
func unescaped(raw string) string {
	if strings.Contains(raw, "@") {
		return "; in a user or password write / as %2F, @ as %40, : as %3A, % as %25"
	}
	return ""
}

// schemes are those that name such a store, for people.
func (c Config) schemes(k kind) string {
	var names []string
	for _, b := range c.Backends {
		if k.opens(b) {
			names = append(names, b.Scheme+":")
		}
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}
