package etcdregistry

import (
	"context"
	"fmt"
	"net/url"
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
// carry when it is not the host. password-file=PATH takes the place of a password, see Config.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*registry.Registry, error) {
	cfg, err := parse(u, o.AllowShared)
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

func parse(u *url.URL, shared bool) (Config, error) {
	known := []string{storeurl.PasswordFile}
	if u.Scheme == secure {
		known = append(known, "ca", "cert", "key", "server_name")
	}
	q, err := storeurl.Parameters(u, known...)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{Prefix: u.Path, User: u.User.Username()}
	cfg.Password, _ = u.User.Password()
	if cfg.PasswordFile, err = storeurl.FileOfPassword(u, q); err != nil {
		return Config{}, err
	}
	if (cfg.User == "") != (cfg.Password == "" && cfg.PasswordFile == "") {
		return Config{}, fmt.Errorf("%s: expected both a user and a password (or password-file), or none: %w", storeurl.Redact(u), fault.Invalid)
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
		names := storeurl.TLSNames{CA: "ca", Cert: "cert", Key: "key", ServerName: "server_name"}
		if cfg.TLS, err = storeurl.TLS(u, q, names, "", shared); err != nil {
			return Config{}, err
		}
	}
	return cfg, nil
}
