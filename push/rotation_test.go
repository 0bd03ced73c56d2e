package push

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
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Whoever may write definitions names the file of the secret and the endpoint: one for all origins signs what he
// likes for him, and he can show that to the endpoint whose secret it is.
func TestASecretOfAnOriginSignsNothingElse(t *testing.T) {
	t.Parallel()
	const one, two = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	text := []byte("https://api.example.com/ " + one + "\nhttps://api.example.com " + two + "\nhttps://b.example.com:8443 " + two + "\n")
	for origin, want := range map[string]int{"https://api.example.com": 2, "https://b.example.com:8443": 1, "": 2} {
		if keys, err := parseSecrets(text, origin); err != nil || len(keys) != want {
			t.Errorf("%q: %d secrets, %v; expected %d", origin, len(keys), err, want)
		}
	}
	for _, origin := range []string{"http://api.example.com", "https://b.example.com", "https://evil.example.com"} {
		if keys, err := parseSecrets(text, origin); !errors.Is(err, errOthers) || len(keys) > 0 {
			t.Errorf("%q: %d secrets, %v", origin, len(keys), err)
		}
	}
	for _, wrong := range []string{"api.example.com " + one, "https://api.example.com x " + one, "https://api.example.com"} {
		if _, err := parseSecrets([]byte(wrong), "https://api.example.com"); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

// A certificate to trust that was replaced is believed for new connections.
func TestCertificatesToTrustAreReadAnew(t *testing.T) {
	t.Parallel()
	served := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(served.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write := func(der []byte) {
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	old, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	write(old)
	f := TLSFiles{CAFile: ca}
	log := slog.New(slog.DiscardHandler)
	roots, err := keep(log, f.trusted)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := keep(log, func() (*tls.Certificate, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	secured := secureWith(roots, pair, nil, new(net.Dialer).DialContext, time.Minute)
	try := func() error {
		c, err := secured(t.Context(), "tcp", served.Listener.Addr().String())
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if err := try(); err == nil {
		t.Error("one that nobody trusts was believed")
	}
	write(served.Certificate().Raw)
	roots.mu.Lock()
	roots.read = time.Now().Add(-rereadAfter)
	roots.mu.Unlock()
	if err := try(); err != nil {
		t.Errorf("the certificate that took its place: %v", err)
	}
}

// A certificate of this side that was replaced is shown on new connections: the old one runs out.
func TestACertificateOfThisSideIsReadAnew(t *testing.T) {
	t.Parallel()
	var shown atomic.Int64
	served := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	served.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, VerifyConnection: func(c tls.ConnectionState) error {
		shown.Store(c.PeerCertificates[0].SerialNumber.Int64())
		return nil
	}, MaxVersion: tls.VersionTLS12} // so that who dials knows of it when the handshake is over
	served.StartTLS()
	t.Cleanup(served.Close)
	dir := t.TempDir()
	write := func(serial int64) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
		cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(7)
	table := filepath.Join(dir, "table")
	if err := os.WriteFile(table, []byte(served.URL+" cert key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, f := slog.New(slog.DiscardHandler), TLSFiles{CertFile: table}
	roots, err := keep(log, func() (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		pool.AddCert(served.Certificate())
		return pool, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := keep(log, func() (*tls.Certificate, error) { return f.certificateFor(served.URL) })
	if err != nil {
		t.Fatal(err)
	}
	secured := secureWith(roots, pair, nil, new(net.Dialer).DialContext, time.Minute)
	for _, serial := range []int64{7, 8} {
		c, err := secured(t.Context(), "tcp", served.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if shown.Load() != serial {
			t.Errorf("certificate %d was shown; expected %d", shown.Load(), serial)
		}
		write(serial + 1)
		pair.mu.Lock()
		pair.read = time.Now().Add(-rereadAfter)
		pair.mu.Unlock()
	}
}
