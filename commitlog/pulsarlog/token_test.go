package pulsarlog

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestATokenThatOthersCanReadOrHearIsRefused(t *testing.T) {
	t.Parallel()
	open, private := filepath.Join(t.TempDir(), "open"), filepath.Join(t.TempDir(), "private")
	for file, mode := range map[string]os.FileMode{open: 0o644, private: 0o600} {
		if err := errors.Join(os.WriteFile(file, []byte("hunter2\n"), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for raw, want := range map[string]string{
		"pulsar://127.0.0.1:1?token-file=" + open:                                          open,
		"pulsar://127.0.0.1:1?password-file=" + open:                                       open,
		"pulsar://127.0.0.1:1?token-file=" + private + "&password-file=" + private:         "one of them",
		"pulsar://192.0.2.1:1?password-file=" + private:                                    "without TLS",
		"pulsar://127.0.0.1:1?web=http://192.0.2.1:1&password-file=" + private:             "without TLS",
		"pulsar://127.0.0.1:1?web=http://127.0.0.1:1,192.0.2.1:1&password-file=" + private: "without TLS",
		"pulsar+ssl://192.0.2.1:1?web=http://192.0.2.1:1&password-file=" + private:         "without TLS",
		"pulsar://:hunter2@127.0.0.1:1?password-file=" + private:                           "one of them",
		"pulsar://hunter2@127.0.0.1:1":                                                     "expected pulsar://:TOKEN@host",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, driver.Options{StrictTLS: true})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; expected %q", raw, err, want)
		}
	}
}

func TestATokenFollowsARedirectOnlyWhereItMayGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to     string
		strict       bool
		sent, failed bool
	}{
		{"http://127.0.0.1", "http://192.0.2.1", false, true, false},
		{"http://127.0.0.1", "http://192.0.2.1", true, false, true},
		{"http://127.0.0.1", "http://127.0.0.2", true, true, false},
		{"http://127.0.0.1", "https://192.0.2.1", true, true, false},
		{"https://192.0.2.1", "http://192.0.2.1", false, false, false},
		{"https://192.0.2.1", "http://a.192.0.2.1", true, false, false},
	} {
		first, next := httptest.NewRequest(http.MethodGet, c.from, nil), httptest.NewRequest(http.MethodGet, c.to, nil)
		first.Header.Set("Authorization", "Bearer hunter2")
		next.Header.Set("Authorization", "Bearer hunter2") // as Go does when the host is the same
		err := redirect(c.strict)(next, []*http.Request{first})
		if (err != nil) != c.failed || (next.Header.Get("Authorization") != "") != c.sent {
			t.Errorf("%+v: %v, sent %v", c, err, next.Header)
		}
	}
}
