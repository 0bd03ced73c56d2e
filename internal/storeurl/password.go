package storeurl

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// PasswordFile is the parameter that names a file with the password, in the URL of every store that has one.
const PasswordFile = "password-file"

// FileOfPassword is the path that the parameter of a URL names; "" without it. A password in the URL too is
// fault.Invalid.
func FileOfPassword(u *url.URL, q url.Values) (string, error) {
	path := q.Get(PasswordFile)
	if !q.Has(PasswordFile) {
		return "", nil
	}
	if path == "" {
		return "", fmt.Errorf("%s: %s is empty; expected the path of a file: %w", Redact(u), PasswordFile, fault.Invalid)
	}
	if password, _ := u.User.Password(); password != "" || q.Has("password") {
		return "", fmt.Errorf("%s: a password and %s; expected one of them: %w", Redact(u), PasswordFile, fault.Invalid)
	}
	return path, nil
}

// CheckPassword reads the password file once, to find mistakes early; path "" is nil. Errors are fault.Invalid.
func CheckPassword(path string) error {
	if path == "" {
		return nil
	}
	if _, err := ReadPassword(path); err != nil {
		return fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return nil
}

// ReadPassword is the password in a file: its one line. The file must pass access.Check. An error names the
// file, never shows its content, and has no kind: a file that is being replaced may be back a moment later.
func ReadPassword(path string) (string, error) {
	text, err := ReadPrivate("password file", path)
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(text) == 0 || bytes.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("password file %s: expected one line, with the password", path)
	}
	return string(text), nil
}

// ReadPrivate reads a file with a secret, which must pass access.Check. what names it in errors, which are as
// those of ReadPassword.
func ReadPrivate(what, path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = access.Check(path, info)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, limits.PasswordFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(text) > limits.PasswordFileBytes {
		return nil, fmt.Errorf("%s %s is longer than %d bytes", what, path, limits.PasswordFileBytes)
	}
	return text, nil
}

// Plaintext reports a login without TLS to a host other than this one: as fault.Invalid if strict, else as one
// warning a call. A host is host, host:port, or the path of a socket.
func Plaintext(store string, hosts []string, strict bool, log *slog.Logger) error {
	for _, host := range hosts {
		if here(host) {
			continue
		}
		if strict {
			return fmt.Errorf("%s at %s: the login may go to another host without TLS, and strict TLS is set; expected a URL with TLS: %w", store, host, fault.Invalid)
		}
		if log != nil {
			log.Warn("a login goes to another host without TLS, or may be made to: anyone in between can read and change what the connection carries",
				"store", store, "host", host, "see", "docs/guide/security.md")
		}
		return nil
	}
	return nil
}

// here reports whether a host is this one. Any name other than localhost may be another.
func here(host string) bool {
	if host == "" || host[0] == '/' || host[0] == '@' {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
