//go:build linux

package testdisk_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/testdisk"
)

func put(t *testing.T, d *testdisk.Disk, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.Dir, name), []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func has(d *testdisk.Disk, name string) bool {
	b, err := os.ReadFile(filepath.Join(d.Dir, name)) //nolint:gosec // of the test
	return err == nil && string(b) == name
}

// What was synced is there after an error or a cut, and what was not is gone.
func TestADiskForgetsWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		hurt func(*testdisk.Disk, *testing.T)
	}{
		{"error", func(d *testdisk.Disk, t *testing.T) { d.Break(t) }},
		{"cut", func(d *testdisk.Disk, t *testing.T) { d.Cut(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := testdisk.Mount(t, "ext4", 32, "errors=remount-ro")
			put(t, d, "synced")
			d.Sync(t)
			put(t, d, "unsynced")
			c.hurt(d, t)
			err := os.WriteFile(filepath.Join(d.Dir, "late"), nil, 0o600)
			if !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EIO) {
				t.Errorf("a write to the broken disk: %v", err)
			}
			d.Unmount(t)
			d.Check(t)
			d.Remount(t)
			if !has(d, "synced") || has(d, "unsynced") || has(d, "late") {
				t.Errorf("synced %t, unsynced %t, late %t; expected only the synced one", has(d, "synced"), has(d, "unsynced"), has(d, "late"))
			}
		})
	}
}
