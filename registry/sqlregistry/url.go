package sqlregistry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

const connectTimeout = 5 * time.Second

// mysqlConfig reads mysql://user:password@host:port/database with the parameters
//
//	tls       false (default), true, preferred, or skip-verify
//	tls-ca    file with the certificates to trust, in PEM; implies tls=true
//	tls-cert  file with this client's certificate, tls-key with its key
//	timeout   for connecting, such as 5s
//	socket    path of a Unix socket, instead of a host
//	password-file  in place of a password, see Config
func mysqlConfig(u *url.URL, shared bool) (*mysql.Config, error) {
	if u.Opaque != "" { // not shown: it may hold a password
		return nil, fmt.Errorf("sql registry: expected two slashes behind %s:, as in mysql://user@host:3306/database: %w", u.Scheme, fault.Invalid)
	}
	q, err := storeurl.Parameters(u, "tls", "tls-ca", "tls-cert", "tls-key", "timeout", "socket", storeurl.PasswordFile)
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.Net, c.Addr = "tcp", u.Host
	if u.Port() == "" {
		c.Addr = u.Hostname() + ":3306"
		if strings.Contains(u.Hostname(), ":") {
			c.Addr = "[" + u.Hostname() + "]:3306"
		}
	}
	if socket := q.Get("socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	} else if u.Hostname() == "" {
		return nil, fmt.Errorf("%s: expected a host, as in mysql://user@host:3306/database: %w", storeurl.Redact(u), fault.Invalid)
	}
	if u.User != nil {
		c.User = u.User.Username()
		c.Passwd, _ = u.User.Password()
	}
	file, err := storeurl.FileOfPassword(u, q)
	if err != nil {
		return nil, err
	}
	if file != "" {
		if err := fromFile(c, file); err != nil {
			return nil, fmt.Errorf("sql registry: %w", err)
		}
	}
	c.DBName = strings.Trim(u.Path, "/")
	if c.DBName == "" || strings.Contains(c.DBName, "/") {
		return nil, fmt.Errorf("%s: expected the name of a database that exists behind the host: %w", storeurl.Redact(u), fault.Invalid)
	}
	c.Timeout = connectTimeout
	if v := q.Get("timeout"); v != "" {
		if c.Timeout, err = time.ParseDuration(v); err != nil || c.Timeout <= 0 {
			return nil, fmt.Errorf("%s: timeout=%s: expected a duration such as 5s: %w", storeurl.Redact(u), v, fault.Invalid)
		}
	}
	if err := setTLS(c, u, q, shared); err != nil {
		return nil, err
	}
	return c, nil
}

// fromFile lets c read the password from a file for each connection.
func fromFile(c *mysql.Config, file string) (err error) {
	if err := storeurl.CheckPassword(file); err != nil {
		return err
	}
	read := func(_ context.Context, c *mysql.Config) (err error) {
		c.Passwd, err = storeurl.ReadPassword(file)
		return err
	}
	return errors.Join(read(context.Background(), c), c.Apply(mysql.BeforeConnect(read)))
}

func setTLS(c *mysql.Config, u *url.URL, q url.Values, shared bool) (err error) {
	names := storeurl.TLSNames{CA: "tls-ca", Cert: "tls-cert", Key: "tls-key"}
	given := names.Given(q)
	mode, unverified := q.Get("tls"), ""
	if mode == "" && len(given) > 0 {
		mode = "true"
	}
	switch mode {
	case "", "false":
		if len(given) > 0 {
			return fmt.Errorf("%s: tls=false, but certificates are given: %w", storeurl.Redact(u), fault.Invalid)
		}
		return nil
	case "true":
	case "skip-verify", "preferred":
		unverified = "tls=" + mode
		c.AllowFallbackToPlaintext = mode == "preferred"
	default:
		return fmt.Errorf("%s: tls=%s: expected true, false, preferred or skip-verify: %w", storeurl.Redact(u), mode, fault.Invalid)
	}
	if c.TLS, err = storeurl.TLS(u, q, names, unverified, shared); err != nil {
		return err
	}
	c.TLS.ServerName = u.Hostname()
	return nil
}

// sqliteConfig reads sqlite:///an/absolute/path or sqlite:relative, with the parameter
// durability=sync (default) or os.
func sqliteConfig(u *url.URL) (c Config, err error) {
	q, err := storeurl.Parameters(u, "durability", "allow-shared")
	if err != nil {
		return c, err
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return c, fmt.Errorf("%s: %w: %w", storeurl.Redact(u), fault.Invalid, err)
		}
	}
	if path == "" || u.Host != "" {
		return c, fmt.Errorf("%s: expected sqlite:///an/absolute/path: %w", storeurl.Redact(u), fault.Invalid)
	}
	switch v := q.Get("durability"); v {
	case "", "sync":
	case "os":
		c.NoSync = true
	default:
		return c, fmt.Errorf("%s: durability=%s: expected sync or os: %w", storeurl.Redact(u), v, fault.Invalid)
	}
	c.File = filepath.FromSlash(path)
	c.AllowShared, err = storeurl.Bool(u, q, "allow-shared")
	return c, err
}
