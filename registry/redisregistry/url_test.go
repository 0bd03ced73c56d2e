package redisregistry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

func TestURLsSayWhereTheStoreIs(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Config{
		"redis://localhost":                                            {Addresses: []string{"localhost:6379"}},
		"redis://me:s3cret@h:7000/5":                                   {Addresses: []string{"h:7000"}, Username: "me", Password: "s3cret", DB: 5},
		"redis://:s3cret@[::1]:7000":                                   {Addresses: []string{"[::1]:7000"}, Password: "s3cret"},
		"redis://[::1]":                                                {Addresses: []string{"[::1]:6379"}},
		"redis://a/?addr=b:7001&addr=c&timeout=500ms":                  {Addresses: []string{"a:6379", "b:7001", "c:6379"}, Timeout: 500 * time.Millisecond},
		"redis://a:26379?master=m&sentinel_user=u&sentinel_password=p": {Addresses: []string{"a:26379"}, MasterSet: "m", SentinelUsername: "u", SentinelPassword: "p"},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseURL(u, false)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; expected %+v", raw, got, err, want)
		}
	}
}

func TestURLsThatMakeNoSenseAreRefusedWithoutSecrets(t *testing.T) {
	t.Parallel()
	for raw, names := range map[string]string{
		"redis://me:hunter2@h?colour=hunter2":       "colour",
		"redis://me:hunter2@h/zero":                 "/zero",
		"redis://me:hunter2@h/-1":                   "/-1",
		"redis://me:hunter2@h?timeout=soon":         "timeout",
		"redis://me:hunter2@h?ca=hunter2":           "ca", // only with TLS
		"rediss://me:hunter2@h?insecure=maybe":      "insecure",
		"rediss://me:hunter2@h?insecure=true&ca=/x": "used for nothing",
		"rediss://me:hunter2@h?cert=only.pem":       "key",
		"rediss://me:hunter2@h?ca=/no/such/file":    "/no/such/file",
		"redis://":                                  "redis://host",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, driver.Options{})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), names) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v; expected an invalid argument that names %q and no secret", raw, err, names)
		}
	}
}

// secured is the address of the real server behind TLS, and the file with its certificate.
func secured(t *testing.T) (address, ca string) {
	t.Helper()
	cfg := server(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"redis.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // joined by the cleanup
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go forward(c, cfg.Addresses[0]) // ends with its connection
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), ca
}

func forward(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	back := make(chan struct{})
	go func() { // joined below
		defer close(back)
		io.Copy(c, s)
		c.Close()
	}()
	io.Copy(s, c)
	s.Close()
	<-back
}

func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	address, ca := secured(t)
	for query, ok := range map[string]bool{
		"ca=" + ca + "&server_name=redis.example": true,
		"insecure=true": true,
		"":              false,
		"ca=" + ca + "&server_name=other.example": false,
	} {
		u := &url.URL{Scheme: "rediss", User: url.UserPassword("", server(t).Password), Host: address, RawQuery: query}
		r, err := OpenURL(t.Context(), u, driver.Options{Namespace: "test-" + newID()})
		if (err == nil) != ok {
			t.Errorf("%s: error %v", u, err)
		}
		if err == nil {
			if _, err := r.List(t.Context(), ""); err != nil {
				t.Error(err)
			}
			r.Close()
		}
	}
}
