package push

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// TLSFiles are files of PEM that connections to endpoints are secured with. CertFile and KeyFile go
// together: the certificate is shown to each endpoint that asks for one. Both are read again now and then.
type TLSFiles struct {
	CertFile string
	KeyFile  string // private: no other user may read it
	CAFile   string // certificates to trust besides those of the system; read once

	AllowShared bool // certificates are taken though other users can change them; a key that they can read never is
}

// Config reads the files; nil when there are none. Errors are fault.Invalid and show nothing of a key.
func (f TLSFiles) Config(log *slog.Logger) (*tls.Config, error) {
	if f.CertFile == "" && f.KeyFile == "" && f.CAFile == "" {
		return nil, nil
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, fmt.Errorf("a certificate and its key go together; expected both files or none: %w", fault.Invalid)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		pool, err := f.trusted()
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	if f.CertFile != "" {
		pair, err := keep(log, f.pair)
		if err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return pair.current(time.Now()), nil
		}
	}
	return cfg, nil
}

// trust is what certificates are read for: what others could write proves nothing.
func (f TLSFiles) trust() storeurl.Trust {
	if f.AllowShared {
		return storeurl.Anybody
	}
	return storeurl.Believed
}

func (f TLSFiles) pair() (*tls.Certificate, error) {
	cert, err := storeurl.ReadFile(f.CertFile, f.trust())
	if err != nil {
		return nil, fmt.Errorf("certificate file: %w: %w", err, fault.Invalid)
	}
	key, err := storeurl.ReadPrivate("key file", f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate file %s and key file %s: %w: %w", f.CertFile, f.KeyFile, err, fault.Invalid)
	}
	return &pair, nil
}

func (f TLSFiles) trusted() (*x509.CertPool, error) {
	pem, err := storeurl.ReadFile(f.CAFile, f.trust())
	if err != nil {
		return nil, fmt.Errorf("CA file: %w: %w", err, fault.Invalid)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s: expected certificates in PEM, found none: %w", f.CAFile, fault.Invalid)
	}
	return pool, nil
}
