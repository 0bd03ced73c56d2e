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

// Parameters returns the query of a URL and refuses what is not known: an option that nobody
// reads must not pass for one that works. The error is fault.Invalid and shows no password.
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
	return nil, fmt.Errorf("%s: unknown parameter %s; expected %s: %w", Redact(u), strings.Join(unknown, ", "), expected, fault.Invalid)
}

// Redact is the URL for messages: without its password, and without the values of parameters,
// which may be secrets too. Of what stands behind a scheme without slashes it shows nothing when it
// looks like a user and a password in the wrong place.
func Redact(u *url.URL) string {
	if strings.Contains(u.Opaque, "@") {
		return u.Scheme + ":…"
	}
	c := *u
	if c.RawQuery != "" {
		c.RawQuery = ""
		return c.Redacted() + "?…"
	}
	return c.Redacted()
}
