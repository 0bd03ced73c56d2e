package kafkalog

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

var parameters = []string{
	"prefix", "client-id", "replication", "flush", "compression", "sasl", "delivery-timeout",
	storeurl.PasswordFile, "tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name",
}

// OpenURL opens the log that a URL names:
//
//	kafka://[user:password@]host:port[,host:port…][?parameter=value&…]
//
// The parameters are prefix, client-id, replication, flush=true, compression=none|snappy|lz4|zstd,
// delivery-timeout=30s, password-file=PATH, sasl=plain|scram-sha-256|scram-sha-512, tls=true, and the files tls-ca,
// tls-cert, tls-key, and tls-server-name (each of which turns TLS on); see Config. The port may be
// left out: 9092. Anything else is fault.Invalid.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*commitlog.Log, error) {
	c, err := configOf(u, o.AllowShared)
	if err != nil {
		return nil, err
	}
	c.Options = o
	return Open(ctx, c)
}

func configOf(u *url.URL, shared bool) (Config, error) {
	q, err := storeurl.Parameters(u, parameters...)
	if err != nil {
		return Config{}, err
	}
	refuse := func(what, expected string) (Config, error) {
		return Config{}, fmt.Errorf("%s: %s: expected %s: %w", storeurl.Redact(u), what, expected, fault.Invalid)
	}
	if u.Opaque != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return refuse("there is something behind the brokers", "kafka://host:port[,host:port…][?parameter=value]")
	}
	c := Config{
		Prefix: q.Get("prefix"), ClientID: q.Get("client-id"),
		Compression: Compression(q.Get("compression")), Mechanism: Mechanism(q.Get("sasl")),
	}
	for _, host := range strings.Split(u.Host, ",") {
		if !strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") {
			host += ":9092"
		}
		c.Brokers = append(c.Brokers, host)
	}
	if u.User != nil {
		c.User = u.User.Username()
		c.Password, _ = u.User.Password()
	}
	if c.PasswordFile, err = storeurl.FileOfPassword(u, q); err != nil {
		return Config{}, err
	}
	if v := q.Get("replication"); v != "" {
		if c.Replication, err = strconv.Atoi(v); err != nil || c.Replication < 1 {
			return refuse("replication="+v, "a number of replicas")
		}
	}
	if v := q.Get("flush"); v != "" {
		if c.Flush, err = strconv.ParseBool(v); err != nil {
			return refuse("flush="+v, "true or false")
		}
	}
	if v := q.Get("delivery-timeout"); v != "" {
		if c.DeliveryTimeout, err = time.ParseDuration(v); err != nil || c.DeliveryTimeout <= 0 {
			return refuse("delivery-timeout="+v, "a duration such as 30s")
		}
	}
	if c.TLS, err = tlsOf(u, q, shared); err != nil {
		return Config{}, err
	}
	return c, nil
}

var tlsNames = storeurl.TLSNames{CA: "tls-ca", Cert: "tls-cert", Key: "tls-key", ServerName: "tls-server-name"}

// tlsOf is nil for a connection in the clear.
func tlsOf(u *url.URL, q url.Values, shared bool) (*tls.Config, error) {
	on := len(tlsNames.Given(q)) > 0
	if v := q.Get("tls"); v != "" {
		want, err := strconv.ParseBool(v)
		if err != nil || !want && on {
			return nil, fmt.Errorf("%s: %w: tls=%s: expected true or false, and no other tls parameter with false", storeurl.Redact(u), fault.Invalid, v)
		}
		on = want
	}
	if !on {
		return nil, nil //nolint:nilnil // no TLS is a valid answer
	}
	return storeurl.TLS(u, q, tlsNames, "", shared)
}
