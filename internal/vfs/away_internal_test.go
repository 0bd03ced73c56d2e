//go:build linux

package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// moved opens a directory with d in it, and moves it from above to above.old; was is d.
func moved(t *testing.T) (fsys *OS, above string, was fs.FileInfo) {
	t.Helper()
	above = filepath.Join(t.TempDir(), "above")
	if err := os.MkdirAll(filepath.Join(above, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	fsys, err := OpenOS(above)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fsys.Close() })
	was, err = fsys.Stat("d")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(above, above+".old"); err != nil {
		t.Fatal(err)
	}
	return fsys, above, was
}

// Who moves a directory and puts it back at once, a backup say, has taken nothing from anybody.
func TestWhatIsMovedForAMomentIsNotAway(t *testing.T) {
	t.Parallel()
	fsys, above, was := moved(t)
	waits := 0
	if away, err := away(fsys, "d", was, func() {
		if waits++; waits == 3 {
			if err := os.Rename(above+".old", above); err != nil {
				t.Error(err)
			}
		}
	}); away || err != nil || waits != 3 {
		t.Errorf("away %t, %v after %d looks more; expected that it is there after 3", away, err, waits)
	}
}
