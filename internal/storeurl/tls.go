package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"

	"github.com/ringfence/ringfence/internal/fault"
)

// TLSNames are the names of a store's TLS parameters: those of PEM files, and that of the name in the server's
// certificate, if it is not the host ("": the store has no such parameter).
type TLSNames struct{ CA, Cert, Key, ServerName string }

// Given are those of the parameters that a URL has.
func (n TLSNames) Given(q url.Values) []string {
	var given []string
	for _, name := range []string{n.CA, n.Cert, n.Key, n.ServerName} {
		if name != "" && q.Get(name) != "" {
			given = append(given, name)
		}
	}
	return given
}

// TLS is the configuration that the parameters of a URL ask for: TLS 1.2 or newer, with a server that is
// verified by the CA of the URL, or else by those of the system.
//
// unverified is the parameter that turns verification off, as the URL has it, or "". Beside a CA it is
// fault.Invalid, as the CA would have no effect. shared is that of LoadTLS. All errors are fault.Invalid.
func TLS(u *url.URL, q url.Values, n TLSNames, unverified string, shared bool) (*tls.Config, error) {
	if unverified != "" && q.Get(n.CA) != "" {
		return nil, fmt.Errorf("%s: %s is given, and with %s it would be used for nothing, as no server is verified; leave one of them out: %w", Redact(u), n.CA, unverified, fault.Invalid)
	}
	c, err := LoadTLS(q.Get(n.CA), q.Get(n.Cert), q.Get(n.Key), n, shared)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Redact(u), err)
	}
	c.ServerName, c.InsecureSkipVerify = q.Get(n.ServerName), unverified != ""
	return c, nil
}

// LoadTLS is TLS of files; the names are for messages. The key must pass access.Check, unless shared.
func LoadTLS(ca, cert, key string, n TLSNames, shared bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", n.CA, err, fault.Invalid)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM: %w", n.CA, ca, fault.Invalid)
		}
	}
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("expected both %s and %s, or none: %w", n.Cert, n.Key, fault.Invalid)
	}
	if cert != "" {
		certPEM, err := ReadFile(cert)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", n.Cert, err, fault.Invalid)
		}
		keyPEM, err := readKey(key, shared)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", n.Key, err, fault.Invalid)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("%s and %s have to name PEM files that belong together: %w: %w", n.Cert, n.Key, err, fault.Invalid)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func readKey(path string, shared bool) ([]byte, error) {
	if shared {
		return ReadFile(path)
	}
	return ReadPrivate("key file", path)
}
