package push_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// table writes a file with a certificate for an origin.
func table(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table")
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// asking is an endpoint that asks for a certificate and takes one with the serial number 7, and a file with its own.
func asking(t *testing.T) (s *httptest.Server, ca string, shown *atomic.Int64) {
	t.Helper()
	shown = new(atomic.Int64)
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(int64(len(r.TLS.PeerCertificates)))
		if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].SerialNumber.Int64() != 7 || r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	return s, ca, shown
}

// A certificate says who we are, and may open what an endpoint guards: whoever may write a definition must not
// have it shown to an endpoint of his own.
func TestACertificateIsShownToItsOriginAlone(t *testing.T) {
	t.Parallel()
	s, ca, shown := asking(t)
	deliver := func(f push.TLSFiles) error {
		return open(t, s.URL, func(c *push.Config) { c.Files = f }).Deliver(t.Context(), record())
	}
	cert, key := certified(t, 0o600)
	other := "https://api.example.com " + cert + " " + key
	must(t, deliver(push.TLSFiles{CertFile: table(t, other, "https://"+strings.ToUpper(s.URL[8:])+"/ "+cert+" "+key), CAFile: ca}))
	for what, f := range map[string]push.TLSFiles{
		"another origin's":                    {CertFile: table(t, other, s.URL+"0 "+cert+" "+key), CAFile: ca},
		"that of one whose name begins alike": {CertFile: table(t, s.URL[:len(s.URL)-1]+" "+cert+" "+key), CAFile: ca},
		"none":                                {CAFile: ca},
	} {
		if err := deliver(f); err == nil || shown.Load() != 0 {
			t.Errorf("%s: %d certificates were shown, %v", what, shown.Load(), err)
		}
	}
	if deliver(push.TLSFiles{CertFile: table(t, s.URL+" "+cert+" "+key)}) == nil {
		t.Error("delivered to one that nobody trusts")
	}
}

func TestFilesOfATableAreNamedFromItsFolderOn(t *testing.T) {
	t.Parallel()
	s, ca, _ := asking(t)
	cert, key := certified(t, 0o600)
	at := table(t, s.URL+" cert key")
	for name, from := range map[string]string{"cert": cert, "key": key} {
		text, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(filepath.Dir(at), name), text, 0o600))
	}
	must(t, open(t, s.URL, func(c *push.Config) { c.Files = push.TLSFiles{CertFile: at, CAFile: ca} }).Deliver(t.Context(), record()))
}

func TestFilesOfTLSThatCanNotBeUsedAreRefused(t *testing.T) {
	t.Parallel()
	cert, open := certified(t, 0o644)
	_, other := certified(t, 0o600)
	written, its := certified(t, 0o600)
	line := func(cert, key string) string { return table(t, "https://api.example.com "+cert+" "+key) }
	for what, f := range map[string]push.TLSFiles{
		"a key that others can read": {CertFile: line(cert, open)},
		"a key of another":           {CertFile: line(cert, other)},
		"no key":                     {CertFile: table(t, "https://api.example.com "+cert)},
		"a certificate and no table": {CertFile: cert},
		"an origin without TLS":      {CertFile: table(t, "http://api.example.com "+written+" "+its)},
		"no file":                    {CAFile: other + "-not-there"},
		"no table":                   {CertFile: other + "-not-there"},
		"no certificates to trust":   {CAFile: other},
	} {
		if err := f.Check(); !errors.Is(err, ringfence.ErrInvalid) || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
