package storeurl

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schemes are those of stores and endpoints. Any other word before the first colon may be the user of a URL
// without its scheme. A new store adds its own here: messages hide more of a URL whose scheme is missing, and
// the tests of secrets go by this list.
var schemes = []string{
	"file", "mem", "kafka", "pulsar", "pulsar+ssl", "postgres", "postgresql", "redis", "rediss", "etcd", "etcds", "mysql", "mariadb", "sqlite", "oracle",
	"http", "https",
}

// Redact is the URL for messages, without possible secrets: the password, a user without a password (it may
// be a token), the values of parameters, and the fragment. It hides the rest of a URL that may be cut in the
// wrong place: by an unescaped '/', '?' or '#' of a password, by a parameter before the '?', or by a scheme
// without slashes.
func Redact(u *url.URL) string {
	switch {
	case u.Scheme == "" && u.Host == "" && u.Opaque == "":
		if u.RawQuery != "" || u.Fragment != "" {
			return "…"
		}
		return word(u.Path)
	case !slices.Contains(schemes, u.Scheme) && (misplaced(u) || u.Host == ""):
		return "…"
	case misplaced(u), u.Host == "" && !local(u) && u.Opaque+u.Path+u.RawQuery+u.Fragment != "":
		return u.Scheme + ":…"
	}
	c := *u
	if c.User != nil {
		if password, _ := c.User.Password(); password == "" || strings.Contains(c.User.Username(), "=") {
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

// word is a text without a scheme: a name, or a path. It hides a list of settings of libpq
// (host=h password=x), and a user or a token before a host.
func word(text string) string {
	if strings.ContainsAny(text, "@=:?# \t\r\n") {
		return "…"
	}
	return text
}

// HasPassword reports whether the text of a URL may hold a password: as such, as a user without one of Redis or
// Pulsar, or in a text that is no URL and has an @ or the name of a secret.
func HasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || misplaced(u) || u.Scheme == "" {
		return strings.Contains(raw, "@") || namedPart.MatchString(raw)
	}
	q := u.Query()
	password, _ := u.User.Password()
	token := u.User != nil && (strings.HasPrefix(u.Scheme, "redis") || strings.HasPrefix(u.Scheme, "pulsar"))
	return password != "" || token || q.Has("password") || q.Has("sentinel_password") || q.Has("sslpassword")
}

// misplaced reports whether a user, a password or parameters may be in another part of the URL.
func misplaced(u *url.URL) bool {
	switch {
	case u.Host == "" && local(u):
		return strings.Contains(u.Opaque, "@")
	case u.Host == "":
		return strings.ContainsAny(u.Opaque+u.Path, "@=")
	case strings.Contains(u.Host, "=") || strings.Contains(u.Path, "="):
		return true
	}
	return u.User == nil && strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

// local reports whether a URL is that of a file, whose path holds no secret.
func local(u *url.URL) bool { return u.Scheme == "file" || u.Scheme == "sqlite" }

// namesOf shows the names of unknown parameters, without possible parts of a password.
func namesOf(u *url.URL, names []string) string {
	shown := slices.Clone(names)
	for i, name := range shown {
		if !parameter.MatchString(name) || misplaced(u) {
			shown[i] = "…"
		}
	}
	return strings.Join(shown, ", ")
}

// RedactText is Redact for a URL as it was typed. Of other texts, and behind a scheme without slashes, it shows
// the scheme at most: a misplaced password may follow.
func RedactText(raw string) string {
	u, err := url.Parse(raw)
	if err == nil && u.Opaque == "" && u.Scheme != "" {
		return Redact(u)
	}
	if scheme, _, ok := strings.Cut(raw, ":"); ok && slices.Contains(schemes, strings.ToLower(scheme)) {
		return scheme + ":…"
	}
	return word(raw)
}

// mostQuoted is how many characters of a value Quote shows.
const mostQuoted = 80

// Quote is a bad value of a setting for messages: quoted, cut if it is long, and redacted if it looks like a
// URL or a part of one.
func Quote(value string) string {
	if strings.Contains(value, "://") || strings.Contains(value, "@") || namedPart.MatchString(value) {
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
	// barePart is a user and a password without a scheme, as in the address of a host.
	barePart = regexp.MustCompile("(^|[\\s\"'`(=,;<])([^\\s\"'`@:/(=,;<]*):([^\\s\"'@/][^\\s\"'@]*)@")
	// namedPart is a secret of a list of settings, as libpq has it.
	namedPart = regexp.MustCompile(`(?i)\b((?:[a-z_]*pass(?:word|wd)?|pwd|[a-z_]*token|[a-z_]*secret)\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&"'` + "`" + `]+)`)
	parameter = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
)

// RedactAll is a text, such as an error of a library or a line of a log, without the passwords of URLs and
// lists of settings in it, also of a URL that was taken for a path (redis:/:password@host).
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
	text = barePart.ReplaceAllString(text, "${1}${2}:xxxxx@")
	text = secretPart.ReplaceAllString(text, "${1}xxxxx")
	return namedPart.ReplaceAllString(text, "${1}xxxxx")
}
