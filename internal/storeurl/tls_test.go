package storeurl

import (
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
		got, err := TLS(u, u.Query(), n, c.unverified)
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
