package integration_test

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/push"
)

// What we sign is verified by the library that receivers use, with either secret of a rotation, and
// with no other one.
func TestTheLibraryOfStandardWebhooksVerifiesWhatIsDelivered(t *testing.T) {
	t.Parallel()
	secret := func(c string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32)))
	}
	verify := func(secret string, body []byte, h http.Header) error {
		w, err := webhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return w.Verify(body, h)
	}
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, verify(secret("a"), body, r.Header), verify(secret("b"), body, r.Header)); err != nil {
			t.Error(err)
		}
		if verify(secret("c"), body, r.Header) == nil || verify(secret("a"), append(body, ' '), r.Header) == nil {
			t.Error("the library believes anything")
		}
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret("b")+"\n"+secret("a")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := push.New(push.Config{URL: s.URL, SecretFile: path, AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, m := range []ringfence.Message{{}, {Value: []byte("a\x00\n\xff")}, {Topic: "a.b", Key: []byte("a.b"), Value: []byte(`{"a":1}`)}} {
		if err := e.Deliver(t.Context(), &m); err != nil {
			t.Error(err)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d deliveries", n)
	}
}
