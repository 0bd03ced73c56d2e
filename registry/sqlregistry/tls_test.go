package sqlregistry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// certificate writes one that vouches for itself, and its key, where the server's user can read them.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", secret)
}

// The server is started by a variable of the environment, so this test runs beside no other.
func TestTLSIsVerifiedAndCarriesTheClientsCertificate(t *testing.T) {
	dir, err := os.MkdirTemp("", "rf-tls-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	serverCert, serverKey := certificate(t, dir, "server")
	cert, key := certificate(t, dir, "client")
	otherCert, otherKey := certificate(t, dir, "other")
	for _, own := range []string{key, otherKey} { // that other users can read is refused
		if err := os.Chmod(own, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("RINGFENCE_MARIADB_OPTIONS", fmt.Sprintf("--ssl-cert=%s --ssl-key=%s --ssl-ca=%s", serverCert, serverKey, cert))
	s := testserver.Private(t, "mariadb")
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	root, err := mysqlConfig(u, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"root", "ringfence", ""} { // anybody on this machine
		stranger := root.Clone()
		stranger.User, stranger.Passwd = user, ""
		if err := sqlDB(t, stranger).PingContext(t.Context()); err == nil {
			t.Errorf("a server for tests lets %q in without a password", user)
		}
	}
	admin := rootOf(t, root)
	for _, demand := range []string{"NONE", "SSL", "X509"} {
		for _, q := range []string{"CREATE USER u_%[1]s@'%%' IDENTIFIED BY 's3cret' REQUIRE %[1]s", "GRANT ALL ON ringfence.* TO u_%[1]s@'%%'"} {
			if _, err := admin.Exec(fmt.Sprintf(q, demand)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ca := "tls-ca=" + serverCert
	for _, c := range []struct {
		demand, parameters string
		want               error
	}{
		{"SSL", "", registry.ErrUnavailable},
		{"SSL", "tls=true", registry.ErrUnavailable}, // nobody vouches for the server
		{"SSL", "tls-ca=" + otherCert, registry.ErrUnavailable},
		{"SSL", ca, nil},
		{"SSL", "tls=skip-verify", nil},
		{"SSL", "tls=preferred", nil},
		{"NONE", "tls=preferred", nil},
		{"X509", ca, registry.ErrUnavailable},
		{"X509", ca + "&tls-cert=" + cert + "&tls-key=" + key, nil},
		{"X509", ca + "&tls-cert=" + otherCert + "&tls-key=" + otherKey, registry.ErrUnavailable},
	} {
		u.User, u.RawQuery = url.UserPassword("u_"+c.demand, "s3cret"), c.parameters
		r, err := OpenURL(t.Context(), u, driver.Options{})
		if err == nil {
			bind(t, r, "k", time.Minute) // on every kind of connection
			err = errors.Join(r.Close())
		}
		if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("a user with REQUIRE %s, %q: %v; expected %v", c.demand, c.parameters, err, c.want)
		}
	}
}
