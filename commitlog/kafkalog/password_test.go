package kafkalog_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/testserver"
)

// The password of the server for tests, from a file, and a wrong one.
func TestThePasswordComesFromAFile(t *testing.T) {
	t.Parallel()
	raw := testserver.URL(t, "kafka_sasl")
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		u.User = url.User(u.User.Username())
		file := filepath.Join(t.TempDir(), "password")
		u.RawQuery = url.Values{"sasl": {mechanism}, "password-file": {file}}.Encode()
		for text, right := range map[string]bool{password + "\n": true, "hunter2\n": false} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := kafkalog.OpenURL(t.Context(), u, driver.Options{})
			if right && err != nil || !right && (!errors.Is(err, commitlog.ErrUnavailable) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%s, right %v: %v", mechanism, right, err)
			}
			if err == nil {
				err = l.Close()
			}
			if right && err != nil {
				t.Error(err)
			}
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := kafkalog.OpenURL(t.Context(), u, driver.Options{}); !errors.Is(err, commitlog.ErrInvalid) {
			t.Errorf("a file that others can read: %v", err)
		}
	}
	u, err := url.Parse("kafka://me:hunter2@192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kafkalog.OpenURL(t.Context(), u, driver.Options{StrictTLS: true}); !errors.Is(err, commitlog.ErrInvalid) || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("strict TLS: %v", err)
	}
}
