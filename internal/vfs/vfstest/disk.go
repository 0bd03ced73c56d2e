//go:build linux

// Package vfstest has what tests of several packages need to play with real file systems.
package vfstest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a file system of so many bytes in memory for the test; false when this user
// may not mount.
func SmallDisk(t testing.TB, size string) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=0700,size="+size)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return "", false
	}
	if err != nil {
		t.Fatalf("mount a tmpfs on %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir, true
}

// Fill takes all space that is left in dir, and returns what gives it back.
func Fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name) //nolint:gosec // a directory of the test
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 1<<20); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}
