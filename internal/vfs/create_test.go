//go:build linux

package vfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Who makes a directory may be killed before it is durable, and what comes next finds it there.
func TestCreateOSSyncsADirectoryUntilItIsUsed(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil { // and killed
		t.Fatal(err)
	}
	for range 2 {
		parents, err := undurable(dir)
		if err != nil || len(parents) < 3 || !slices.Equal(parents[:2], []string{filepath.Join(base, "a"), base}) || parents[len(parents)-1] != "/" {
			t.Fatalf("%v, %v are to be synced; expected all directories above %s", parents, err, dir)
		}
		fsys, err := CreateOS(dir, 0o700)
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "format"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if parents, err := undurable(dir); err != nil || parents != nil {
		t.Errorf("%v, %v are to be synced for a directory that is in use", parents, err)
	}
}
