package filelog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

// A page that can't be had, here behind the end of the file, is no mistake in the program and is not called one.
func TestAPageThatCantBeReadIsToldAsWhatItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 2*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := vfs.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	f, err := disk.OpenFile("f", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := f.Map(int64(2*os.Getpagesize()), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	if err := os.Truncate(filepath.Join(dir, "f"), 1); err != nil {
		t.Fatal(err)
	}
	var b byte
	err = guard(func() { b = m.Bytes()[os.Getpagesize()] })
	if err == nil || strings.Contains(err.Error(), "nil pointer") || !strings.Contains(err.Error(), "no space is left") {
		t.Errorf("%d, %v; expected an error that names the disk", b, err)
	}
}
