// Package storeurl reads the URLs that name a store.
package storeurl

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// Parameters is the query of a URL. An unknown parameter is fault.Invalid, as a misspelt one would have no
// effect. The error shows no password.
func Parameters(u *url.URL, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%s: the part behind '?' is malformed: %w", Redact(u), fault.Invalid)
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return q, nil
	}
	expected := "none"
	if len(known) > 0 {
		expected = strings.Join(known, ", ")
	}
	return nil, fmt.Errorf("%s: unknown parameter %s; expected %s: %w", Redact(u), namesOf(u, unknown), expected, fault.Invalid)
}

// Bool is a parameter that is true or false, which is the default. Any other value is fault.Invalid.
func Bool(u *url.URL, q url.Values, name string) (bool, error) {
	switch v := q.Get(name); v {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %s=%s: expected true or false: %w", Redact(u), name, Quote(v), fault.Invalid)
	}
}
