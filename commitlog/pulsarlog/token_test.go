package pulsarlog

import (
	"errors"
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
		"pulsar://127.0.0.1:1?token-file=" + open:                                  open,
		"pulsar://127.0.0.1:1?password-file=" + open:                               open,
		"pulsar://127.0.0.1:1?token-file=" + private + "&password-file=" + private: "one of them",
		"pulsar://192.0.2.1:1?password-file=" + private:                            "without TLS",
		"pulsar://127.0.0.1:1?web=http://192.0.2.1:1&password-file=" + private:     "without TLS",
		"pulsar+ssl://192.0.2.1:1?web=http://192.0.2.1:1&password-file=" + private: "without TLS",
		"pulsar://:hunter2@127.0.0.1:1?password-file=" + private:                   "one of them",
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
