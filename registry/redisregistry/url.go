package redisregistry

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

const defaultPort = "6379"

// OpenURL opens the store that a URL names:
//
//	redis://user:password@host:6379/0       one server, or a Cluster
//	redis://a:6379?addr=b:6379&addr=c:6379  more nodes of a Cluster
//	redis://a:26379?addr=b:26379&master=rf  Sentinels, and the name they know the master by
//	rediss://…                              with TLS
//
// Parameters: addr (again and again), master, password-file (in place of a password, see
// Config), sentinel_user, sentinel_password, timeout (a duration), and for rediss: ca, cert, key (PEM files), server_name, insecure=true.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	cfg, err := parseURL(u, o.AllowShared)
	if err != nil {
		return nil, err
	}
	cfg.Options = o
	return Open(ctx, cfg)
}

func parseURL(u *url.URL, shared bool) (Config, error) {
	known := []string{"addr", "master", "sentinel_user", "sentinel_password", "timeout", storeurl.PasswordFile}
	if u.Scheme == "rediss" {
		known = append(known, "ca", "cert", "key", "server_name", "insecure")
	}
	q, err := storeurl.Parameters(u, known...)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{
		MasterSet: q.Get("master"), SentinelUsername: q.Get("sentinel_user"), SentinelPassword: q.Get("sentinel_password"),
		Username: u.User.Username(),
	}
	cfg.Password, _ = u.User.Password()
	if cfg.PasswordFile, err = storeurl.FileOfPassword(u, q); err != nil {
		return Config{}, err
	}
	if u.Host == "" {
		return Config{}, fmt.Errorf("%s: expected redis://host:port: %w", storeurl.Redact(u), fault.Invalid)
	}
	for _, a := range q["addr"] {
		if strings.Contains(a, "@") {
			return Config{}, fmt.Errorf("%s: addr: a user and a password stand before the first host alone; expected host:port: %w", storeurl.Redact(u), fault.Invalid)
		}
	}
	for _, a := range append([]string{u.Host}, q["addr"]...) {
		cfg.Addresses = append(cfg.Addresses, withPort(a))
	}
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		if cfg.DB, err = strconv.Atoi(db); err != nil || cfg.DB < 0 {
			return Config{}, fmt.Errorf("%s: path %q: expected the number of a database, as in /0: %w", storeurl.Redact(u), u.Path, fault.Invalid)
		}
	}
	if v := q.Get("timeout"); v != "" {
		if cfg.Timeout, err = time.ParseDuration(v); err != nil || cfg.Timeout <= 0 {
			return Config{}, fmt.Errorf("%s: timeout=%s: expected a duration such as 2s: %w", storeurl.Redact(u), v, fault.Invalid)
		}
	}
	if u.Scheme == "rediss" {
		cfg.TLS, err = tlsConfig(u, q, shared)
	}
	return cfg, err
}

func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return net.JoinHostPort(strings.Trim(address, "[]"), defaultPort)
	}
	return address
}

func tlsConfig(u *url.URL, q url.Values, shared bool) (*tls.Config, error) {
	insecure, err := storeurl.Bool(u, q, "insecure")
	if err != nil {
		return nil, err
	}
	unverified := ""
	if insecure {
		unverified = "insecure=true"
	}
	return storeurl.TLS(u, q, storeurl.TLSNames{CA: "ca", Cert: "cert", Key: "key", ServerName: "server_name"}, unverified, shared)
}

func addresses(c Config) string { return strings.Join(c.Addresses, ", ") }
