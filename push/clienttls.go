package push

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// TLSFiles are the files that secure connections to endpoints. All of them are read again now and then.
type TLSFiles struct {
	// CertFile has lines of an origin, such as "https://api.example.com", a file with the certificate for it and
	// one with its key (both PEM; the key private: no other user may read it). Only endpoints of that origin get
	// the certificate, when they ask for one: it says who we are. Relative names start at the folder of this
	// file.
	CertFile string
	CAFile   string // certificates to trust besides those of the system
}

// Check reads all files. Errors are fault.Invalid and show nothing of a key.
func (f TLSFiles) Check() error {
	_, err := f.trusted()
	table, other := f.table()
	errs := []error{err, other}
	for _, c := range table {
		_, err := f.pair(c)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// certificate is a line of CertFile.
type certificate struct{ origin, cert, key string }

var errCertificates = errors.New("expected lines of an origin, the file of its certificate and that of the key, as in \"https://api.example.com cert.pem key.pem\"")

func (f TLSFiles) table() (all []certificate, err error) {
	if f.CertFile == "" {
		return nil, nil
	}
	text, err := storeurl.ReadFile(f.CertFile)
	if err != nil {
		return nil, fmt.Errorf("certificate table: %w: %w", err, fault.Invalid)
	}
	near := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(f.CertFile), path)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 || !strings.HasPrefix(fields[0], "https://") {
			return nil, fmt.Errorf("certificate table %s: %w: %w", f.CertFile, errCertificates, fault.Invalid)
		}
		all = append(all, certificate{fields[0], near(fields[1]), near(fields[2])})
	}
	return all, nil
}

// certificateFor returns that of an origin; nil: it gets none.
func (f TLSFiles) certificateFor(origin string) (*tls.Certificate, error) {
	table, err := f.table()
	for _, c := range table {
		if sameOrigin(c.origin, origin) {
			return f.pair(c)
		}
	}
	return nil, err
}

func (f TLSFiles) pair(c certificate) (*tls.Certificate, error) {
	cert, err := storeurl.ReadFile(c.cert)
	if err != nil {
		return nil, fmt.Errorf("certificate file: %w: %w", err, fault.Invalid)
	}
	key, err := storeurl.ReadPrivate("key file", c.key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate file %s and key file %s: %w: %w", c.cert, c.key, err, fault.Invalid)
	}
	return &pair, nil
}

// trusted returns the certificates to trust; nil: those of the system.
func (f TLSFiles) trusted() (*x509.CertPool, error) {
	if f.CAFile == "" {
		return nil, nil //nolint:nilnil // as tls.Config has it
	}
	pem, err := storeurl.ReadFile(f.CAFile)
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

// secure begins TLS on connections, each with the present content of the files.
func (f TLSFiles) secure(log *slog.Logger, origin string, base *tls.Config, by dial, within time.Duration) (dial, error) {
	roots, err := keep(log, f.trusted)
	if err != nil {
		return nil, err
	}
	pair, err := keep(log, func() (*tls.Certificate, error) { return f.certificateFor(origin) })
	if err != nil {
		return nil, err
	}
	return secureWith(roots, pair, base, by, within), nil
}

func secureWith(roots *kept[*x509.CertPool], pair *kept[*tls.Certificate], base *tls.Config, by dial, within time.Duration) dial {
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		cfg, now := base.Clone(), time.Now()
		if pool := roots.current(now); pool != nil {
			cfg.RootCAs = pool
		}
		if own := pair.current(now); own != nil {
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
		}
		if cfg.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("%q is no address to dial: %w", address, fault.Invalid)
			}
			cfg.ServerName = host
		}
		cfg.NextProtos = []string{"h2", "http/1.1"}
		raw, err := by(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		c := tls.Client(raw, cfg)
		if err := c.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err //nolint:wrapcheck // as that of a dial
		}
		return c, nil
	}
}

// sameOrigin reports whether a line of a file is for an origin.
func sameOrigin(line, origin string) bool {
	return strings.EqualFold(strings.TrimSuffix(line, "/"), origin)
}
