package etcdregistry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// OpenURL opens the registry that a URL names:
//
//	etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]
//
// The port is 2379 when there is none; of several nodes the last needs one. etcds: is the same through TLS, and takes the parameters
// ca, cert and key, names of PEM files, and server_name, which the server's certificate has to
// carry when it is not the host.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	cfg, err := parse(u)
	if err != nil {
		return nil, err
	}
	cfg.Options = o
	return Open(ctx, cfg)
}

const (
	defaultPort = "2379"
	secure      = "etcds" // the scheme
)

func parse(u *url.URL) (Config, error) {
	var known []string
	if u.Scheme == secure {
		known = []string{"ca", "cert", "key", "server_name"}
	}
	q, err := storeurl.Parameters(u, known...)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{Prefix: u.Path, User: u.User.Username()}
	cfg.Password, _ = u.User.Password()
	if (cfg.User == "") != (cfg.Password == "") {
		return Config{}, fmt.Errorf("%s: expected both a user and a password, or none: %w", storeurl.Redact(u), fault.Invalid)
	}
	for _, host := range strings.Split(u.Host, ",") {
		if host == "" {
			return Config{}, fmt.Errorf("%s: expected etcd://host:port, with more nodes divided by commas: %w", storeurl.Redact(u), fault.Invalid)
		}
		if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') {
			host += ":" + defaultPort
		}
		cfg.Endpoints = append(cfg.Endpoints, host)
	}
	if u.Scheme == secure {
		if cfg.TLS, err = tlsConfig(q); err != nil {
			return Config{}, fmt.Errorf("%s: %w", storeurl.Redact(u), err)
		}
	}
	return cfg, nil
}

func tlsConfig(q url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("server_name")}
	if file := q.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("ca: %w: %w", err, fault.Invalid)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM form: %w", file, fault.Invalid)
		}
	}
	if q.Has("cert") || q.Has("key") {
		pair, err := tls.LoadX509KeyPair(q.Get("cert"), q.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("cert and key have to name PEM files that belong together: %w: %w", err, fault.Invalid)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
