package integration_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/push"
)

// What we sign is verified by the library that receivers use, with the secret that there is or either of a
// rotation, and with no other one.
func TestTheLibraryOfStandardWebhooksVerifiesWhatIsDelivered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ good, bad []string }{
		"one secret":                {[]string{"a"}, []string{"b", "c"}},
		"two, the new one in front": {[]string{"b", "a"}, []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verifiedByTheLibrary(t, c.good, c.bad)
		})
	}
}

func verifiedByTheLibrary(t *testing.T, good, bad []string) {
	secret := func(c string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32)))
	}
	verify := func(c string, body []byte, h http.Header) error {
		w, err := webhooks.NewWebhook(secret(c))
		if err != nil {
			return err
		}
		return w.Verify(body, h)
	}
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for _, c := range good {
			if err := verify(c, body, r.Header); err != nil {
				t.Errorf("with the secret of %s: %v", c, err)
			}
			if verify(c, append(body, ' '), r.Header) == nil {
				t.Errorf("with the secret of %s the library believes another body", c)
			}
			later := r.Header.Clone()
			at, _ := strconv.ParseInt(later.Get("webhook-timestamp"), 10, 64)
			later.Set("webhook-timestamp", strconv.FormatInt(at+1, 10))
			if verify(c, body, later) == nil {
				t.Errorf("with the secret of %s the library believes another time", c)
			}
		}
		for _, c := range bad {
			if verify(c, body, r.Header) == nil {
				t.Errorf("the library believes what the secret of %s never signed", c)
			}
		}
	}))
	defer s.Close()
	var lines string
	for _, c := range good {
		lines += secret(c) + "\n"
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
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
