package storeurl

import (
	"bytes"
	"errors"
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

// FileOfPassword is the file that the parameter of a URL names; "": there is none. A password beside it
// is fault.Invalid, as one of them would be used for nothing.
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

// CheckPassword looks at the file of a password before anybody needs it; path "" is nil. Errors are
// fault.Invalid.
func CheckPassword(path string) error {
	if path == "" {
		return nil
	}
	if _, err := ReadPassword(path); err != nil {
		return fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return nil
}

// ReadPassword is the password in a file: all of it, without the end of the line. The file is one that
// no other user can read, see access.Check. Errors name the file, show nothing of what is in it, and have
// no kind: a file that is being replaced may be there again at the next connection.
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

// ReadPrivate reads a file with secrets, which no other user can read, see access.Check. what says in errors
// what it is; they are as those of ReadPassword.
func ReadPrivate(what, path string) ([]byte, error) {
	fail := func(why string) ([]byte, error) { return nil, fmt.Errorf("%s %s: %s", what, path, why) }
	f, info, err := open(path)
	switch {
	case errors.Is(err, fault.Invalid):
		return fail("is no regular file")
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return fail("is no regular file")
	}
	if err := access.Check(path, info); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, limits.PasswordFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if len(text) > limits.PasswordFileBytes {
		return fail(fmt.Sprintf("is longer than %d bytes", limits.PasswordFileBytes))
	}
	return text, nil
}

// Plaintext is called by who is about to log in without TLS, or may be made to by who is in between. If
// one of the hosts (host, host:port, or the path of a socket) is not this one, it is fault.Invalid where
// strict, and otherwise a warning, one in each call.
func Plaintext(store string, hosts []string, strict bool, log *slog.Logger) error {
	for _, host := range hosts {
		if here(host) {
			continue
		}
		if strict {
			return fmt.Errorf("%s at %s: the login would go to another host without TLS, or could be made to, and strict TLS is asked for; expected a URL with TLS: %w", store, host, fault.Invalid)
		}
		if log != nil {
			log.Warn("a login goes to another host without TLS, or can be made to: who is in between can read and change what goes over the connection",
				"store", store, "host", host, "see", "docs/guide/security.md")
		}
		return nil
	}
	return nil
}

// here tells whether what is sent to a host stays on this one. A name other than localhost may be anybody's.
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
