package redisregistry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

const defaultPort = "6379"

// OpenURL opens the store that a URL of the command line names:
//
//	redis://user:password@host:6379/0       one server, or a Cluster
//	redis://a:6379?addr=b:6379&addr=c:6379  more nodes of a Cluster
//	redis://a:26379?addr=b:26379&master=rf  Sentinels, and the name they know the master by
//	rediss://…                              with TLS
//
// Parameters: addr (again and again), master, sentinel_user, sentinel_password, timeout (a
// duration), and for rediss: ca, cert, key (PEM files), server_name, insecure=true.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	cfg, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	cfg.Options = o
	return Open(ctx, cfg)
}

func parseURL(u *url.URL) (Config, error) {
	known := []string{"addr", "master", "sentinel_user", "sentinel_password", "timeout"}
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
	if u.Host == "" {
		return Config{}, fmt.Errorf("%s: expected redis://host:port: %w", storeurl.Redact(u), fault.Invalid)
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
		cfg.TLS, err = tlsConfig(u, q)
	}
	return cfg, err
}

func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return net.JoinHostPort(strings.Trim(address, "[]"), defaultPort)
	}
	return address
}

func tlsConfig(u *url.URL, q url.Values) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("server_name")}
	switch v := q.Get("insecure"); v {
	case "", "false":
	case "true":
		cfg.InsecureSkipVerify = true
	default:
		return nil, fmt.Errorf("%s: insecure=%s: expected true or false: %w", storeurl.Redact(u), v, fault.Invalid)
	}
	if file := q.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("certificates of authorities: %w: %w", err, fault.Invalid)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate: %w", file, fault.Invalid)
		}
	}
	cert, key := q.Get("cert"), q.Get("key")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%s: expected both cert and key, or none: %w", storeurl.Redact(u), fault.Invalid)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w: %w", err, fault.Invalid)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func addresses(c Config) string { return strings.Join(c.Addresses, ", ") }
