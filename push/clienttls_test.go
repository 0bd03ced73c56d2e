package push_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/push"
)

// certified writes a certificate of this side and its key.
func certified(t *testing.T, mode os.FileMode) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), mode))
	return certFile, keyFile
}

func TestAnEndpointThatAsksForACertificateGetsIt(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.PeerCertificates[0].SerialNumber.Int64() != 7 {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	deliver := func(f push.TLSFiles) error {
		cfg, err := f.Config(slog.New(slog.DiscardHandler))
		must(t, err)
		return open(t, s.URL, func(c *push.Config) { c.TLS = cfg }).Deliver(t.Context(), record())
	}
	cert, key := certified(t, 0o600)
	must(t, deliver(push.TLSFiles{CertFile: cert, KeyFile: key, CAFile: ca}))
	if deliver(push.TLSFiles{CAFile: ca}) == nil {
		t.Error("delivered without a certificate")
	}
	if deliver(push.TLSFiles{CertFile: cert, KeyFile: key}) == nil {
		t.Error("delivered to one that nobody trusts")
	}
}

func TestFilesOfTLSThatCanNotBeUsedAreRefused(t *testing.T) {
	t.Parallel()
	cert, open := certified(t, 0o644)
	_, other := certified(t, 0o600)
	written, its := certified(t, 0o600)
	must(t, os.Chmod(written, 0o666))
	if _, err := (push.TLSFiles{CertFile: written, KeyFile: its, CAFile: written, AllowShared: true}).Config(slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("taken as they are: %v", err)
	}
	for what, f := range map[string]push.TLSFiles{
		"a key that others can read": {CertFile: cert, KeyFile: open},
		"a key of another":           {CertFile: cert, KeyFile: other},
		"no key":                     {CertFile: cert},
		"no certificate":             {KeyFile: other},
		"no file":                    {CAFile: other + "-not-there"},
		"no certificates to trust":   {CAFile: other},
		"a CA that others can write": {CAFile: written},
		"one that others can write":  {CertFile: written, KeyFile: its},
	} {
		if _, err := f.Config(slog.New(slog.DiscardHandler)); !errors.Is(err, ringfence.ErrInvalid) || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
