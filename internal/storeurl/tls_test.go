package storeurl

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

func TestKeyOpenToOtherUsersIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	n := TLSNames{CA: "ca", Cert: "cert", Key: "key"}
	path := map[string]string{}
	for name, block := range map[string]*pem.Block{"ca": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "cert": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "key": {Type: "PRIVATE KEY", Bytes: key}} {
		path[name] = filepath.Join(dir, name)
		if err := os.WriteFile(path[name], pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(shared bool) error {
		_, err := LoadTLS(path["ca"], path["cert"], path["key"], n, shared)
		return err
	}
	shut := func(name string) {
		t.Helper()
		if err := os.Chmod(path[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		mode os.FileMode
		says string // "": no error
	}{
		{"ca", 0o644, ""},
		{"cert", 0o644, ""},
		{"key", 0o400, ""}, {"key", 0o604, "other users can read"}, {"key", 0o602, "other users can read"},
	} {
		if err := os.Chmod(path[c.name], c.mode); err != nil {
			t.Fatal(err)
		}
		err := load(false)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says+" ") || !strings.Contains(err.Error(), path[c.name])) {
			t.Errorf("%s with mode %o: %v; expected %q", c.name, c.mode, err, c.says)
		}
		if err := load(true); err != nil {
			t.Errorf("%s with mode %o, which is allowed: %v", c.name, c.mode, err)
		}
		shut(c.name)
	}
}

func TestACAIsUsedOrTheMistakeIsTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	n := TLSNames{CA: "tls-ca", Cert: "tls-cert", Key: "tls-key", ServerName: "tls-server-name"}
	for _, c := range []struct {
		query, unverified string
		says              string // "": no error
		roots, insecure   bool
	}{
		{"", "", "", false, false},
		{"tls-ca=" + ca, "", "", true, false},
		{"", "tls=skip-verify", "", false, true},
		{"tls-ca=" + ca, "tls=skip-verify", "tls-ca is given, and with tls=skip-verify", false, false},
		{"tls-ca=/nowhere", "", "tls-ca: ", false, false},
		{"tls-cert=" + ca, "", "both tls-cert and tls-key", false, false},
		{"tls-key=" + ca, "", "both tls-cert and tls-key", false, false},
		{"tls-cert=" + ca + "&tls-key=" + ca, "", "belong together", false, false},
	} {
		u, err := url.Parse("kafka://me:hunter2@h?" + c.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := TLS(u, u.Query(), n, c.unverified, false)
		if c.says != "" {
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: %v; expected %q", c.query, c.unverified, err, c.says)
			}
			continue
		}
		if err != nil || (got.RootCAs != nil) != c.roots || got.InsecureSkipVerify != c.insecure {
			t.Errorf("%s, %s: %+v, %v", c.query, c.unverified, got, err)
		}
	}
}
