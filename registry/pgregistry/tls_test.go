package pgregistry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// certificate makes one that signs itself, for 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", keyDER)
}

// secure has a server speak TLS. Only its own user may own the key, so it writes the files itself.
func secure(t *testing.T, admin, cert, key string) {
	t.Helper()
	for name, text := range map[string]string{"server.crt": cert, "server.key": key} {
		execute(t, admin, `COPY (SELECT unnest(string_to_array('`+text+`', E'\n'))) TO PROGRAM 'umask 077; cat > `+name+`'`)
	}
	execute(t, admin, "ALTER SYSTEM SET ssl = on")
	execute(t, admin, "SELECT pg_reload_conf()")
}

func TestTLSIsVerifiedAndAllConnectionsUseIt(t *testing.T) {
	t.Parallel()
	server := testserver.Private(t, "postgres")
	cert, key := certificate(t)
	secure(t, server.URL(), cert, key)
	other, _ := certificate(t)
	files := map[string]string{}
	for name, text := range map[string]string{"right": cert, "wrong": other} {
		files[name] = filepath.Join(t.TempDir(), name+".pem")
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := func(host, mode, ca string) schemaStore {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.Host = net.JoinHostPort(host, u.Port())
		u.RawQuery = url.Values{"sslmode": {mode}, "sslrootcert": {files[ca]}}.Encode()
		return schemaStore{u.String(), "tls"}
	}
	good := to("127.0.0.1", "verify-full", "right")
	await(t, "the server speaks TLS", func() bool {
		c, err := pgx.Connect(t.Context(), good.url)
		if err == nil {
			err = c.Close(t.Context())
		}
		return err == nil
	})
	s := good.open(t, driver.Options{})
	session(t, s, time.Minute)
	bind(t, good.open(t, driver.Options{}), session(t, s, time.Minute), "member")
	put(t, s, "k", "v")
	if all, plain := connections(t, server.URL()); all < 3 || plain > 0 {
		t.Errorf("%d connections, of which %d are not encrypted", all, plain)
	}
	for name, bad := range map[string]schemaStore{
		"a certificate that nobody trusts": to("127.0.0.1", "verify-full", "wrong"),
		"a certificate for another host":   to("localhost", "verify-full", "right"),
	} {
		if _, err := open(t.Context(), Config{URL: bad.url, Schema: bad.schema}); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// connections counts those of registries, and those that are not encrypted.
func connections(t *testing.T, admin string) (all, plain int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	err = c.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
		WHERE application_name LIKE 'ringfence%'`).Scan(&all, &plain)
	if err != nil {
		t.Fatal(err)
	}
	return all, plain
}
