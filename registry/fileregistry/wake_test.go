package fileregistry

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/internal/local"
)

// Who wakes others writes to a file, and must not write to one that a link leads to.
func TestWhatWakesOthersIsAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other, link, folder := filepath.Join(dir, "other"), filepath.Join(dir, "link"), filepath.Join(dir, "folder")
	if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Symlink(other, link), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, folder, "/dev/null"} {
		b, err := local.NewBell(path)
		if err == nil {
			b.Ring()
			t.Errorf("%s is taken (%v)", path, b.Close())
		}
		if path == "/dev/null" && !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v; expected ErrInvalid", path, err)
		}
	}
	if text, err := os.ReadFile(other); err != nil || len(text) > 0 {
		t.Errorf("the other file has %q, %v", text, err)
	}
	b, err := local.NewBell(filepath.Join(dir, "wake"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
