package storeurl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// A FIFO would be waited for, a device has no end, and a file may be too long.
func TestWhatIsNoFileIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	fifo, long := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "long")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(long, nil, 0o600), os.Truncate(long, limits.SettingsFileBytes+1)); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{fifo: "is a FIFO", "/dev/zero": "is a device", t.TempDir(): "is a directory", long: "longer than"} {
		for _, files := range [][3]string{{path, "", ""}, {"", path, path}} {
			_, err := LoadTLS(files[0], files[1], files[2], TLSNames{CA: "ca", Cert: "cert", Key: "key"}, false)
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v; expected that it %s", files, err, says)
			}
		}
	}
	if text, err := ReadFile(os.DevNull); err != nil || len(text) > 0 {
		t.Errorf("the null device: %q, %v", text, err)
	}
}
