// Package storeurl reads the URLs that name a store.
package storeurl

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
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

// Bool is the parameter of that name, false when it is not there. The error is fault.Invalid.
func Bool(u *url.URL, q url.Values, name string) (bool, error) {
	switch v := q.Get(name); v {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %s=%s: expected true or false: %w", Redact(u), name, v, fault.Invalid)
	}
}

// Redact is the URL for messages, without what may be secret: the password, a user that stands
// alone (who gives a token writes it there), the values of parameters, and the fragment. Where an
// unescaped '/', '?' or '#' of a password has cut the URL in the wrong place, and behind a scheme
// without slashes, it shows nothing when a user and a password may follow.
func Redact(u *url.URL) string {
	if misplaced(u) {
		return u.Scheme + ":…"
	}
	c := *u
	if c.User != nil {
		if password, _ := c.User.Password(); password == "" {
			c.User = url.User("xxxxx")
		}
	}
	tail := ""
	if c.RawQuery != "" {
		tail += "?…"
	}
	if c.Fragment != "" {
		tail += "#…"
	}
	c.RawQuery, c.ForceQuery, c.Fragment, c.RawFragment = "", false, "", ""
	return c.Redacted() + tail
}

// HasPassword tells whether the text of a URL holds a password, or what may be one: a user that stands
// alone before a Redis or Pulsar, or what can't be read as a URL and has an @ in it.
func HasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || misplaced(u) {
		return strings.Contains(raw, "@")
	}
	q := u.Query()
	password, _ := u.User.Password()
	token := u.User != nil && (strings.HasPrefix(u.Scheme, "redis") || strings.HasPrefix(u.Scheme, "pulsar"))
	return password != "" || token || q.Has("password") || q.Has("sentinel_password") || q.Has("sslpassword")
}

// misplaced tells whether a user and a password may stand where they are not taken for such.
func misplaced(u *url.URL) bool {
	if u.Host == "" {
		return strings.Contains(u.Opaque, "@")
	}
	name, _, _ := strings.Cut(u.RawQuery, "=")
	return u.User == nil && strings.Contains(u.Path+name+u.Fragment, "@")
}

// RedactText is Redact for a URL as it was typed. Of what is none, and of what stands behind a
// scheme without slashes, it shows only the start: a misplaced password may follow.
func RedactText(raw string) string {
	u, err := url.Parse(raw)
	if start, _, ok := strings.Cut(raw, ":"); ok && (err != nil || u.Opaque != "" || u.Scheme == "") {
		return start + ":…"
	}
	if err != nil {
		return fmt.Sprintf("%.12s…", raw)
	}
	return Redact(u)
}

// mostQuoted is how many characters of a value a message shows.
const mostQuoted = 80

// Quote shows a value that somebody gave to the wrong setting, or that is none: quoted, cut where it is
// long, and without what may be secret when it looks like a URL.
func Quote(value string) string {
	if strings.Contains(value, "://") || strings.Contains(value, ":") && HasPassword(value) {
		value = RedactText(value)
	}
	if runes := []rune(value); len(runes) > mostQuoted {
		return fmt.Sprintf("%q…", string(runes[:mostQuoted]))
	}
	return strconv.Quote(value)
}

var (
	userPart   = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*:/+)([^\s"@:]*)(:?)([^\s"]*)@`)
	secretPart = regexp.MustCompile(`([?&][a-z_]*(?:password|token)=)[^&\s"]+`)
)

// RedactAll is a text, such as an error of somebody else's, without the passwords of the URLs in it; also
// of one that was taken for a path (redis:/:password@host).
func RedactAll(text string) string {
	if !strings.ContainsAny(text, "@=") {
		return text
	}
	text = userPart.ReplaceAllStringFunc(text, func(part string) string {
		m := userPart.FindStringSubmatch(part)
		scheme, _, _ := strings.Cut(part, ":")
		token := strings.HasPrefix(scheme, "redis") || strings.HasPrefix(scheme, "pulsar")
		switch {
		case scheme == "file" || scheme == "sqlite", m[3] == "" && !token: // a path, or a user alone
			return part
		case m[3] == "":
			return m[1] + "xxxxx@"
		}
		return m[1] + m[2] + ":xxxxx@"
	})
	return secretPart.ReplaceAllString(text, "${1}xxxxx")
}
