//go:build linux

// Package testdisk has real file systems for tests: a file becomes a block device, the device a
// file system, and what happens to disks is done to it: errors, a cut, a check, a snapshot.
//
// That takes root and loop devices. A test without them is skipped, or fails where
// RINGFENCE_REQUIRE, a list of names divided by commas, has the name loop.
package testdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a file system of the test's own.
type Disk struct {
	Dir     string // where it is mounted, while it is
	kind    string
	options string
	image   string
	device  string // "": not mounted
}

// Mount makes a file system of a kind ("ext4", "btrfs" …) on a new disk of so many MiB and mounts
// it, with options as mount -o takes them. It is gone after the test.
func Mount(t testing.TB, kind string, size int64, options ...string) *Disk {
	t.Helper()
	d := &Disk{Dir: filepath.Join(t.TempDir(), "disk"), kind: kind, options: strings.Join(options, ","), image: filepath.Join(t.TempDir(), "image")}
	if os.Geteuid() != 0 {
		missing(t, "this user may not mount a file system")
	}
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		missing(t, fmt.Sprintf("there is no program mkfs.%s", kind))
	}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, size<<20), os.Mkdir(d.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	run(t, mkfs, "-q", d.image)
	device, err := loop(d.image)
	if err != nil {
		missing(t, fmt.Sprintf("no loop device can be had: %v", err))
	}
	d.attach(t, device)
	if err := os.Chmod(d.Dir, 0o700); err != nil { // as a data directory has to be
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Unmount(t) })
	return d
}

// Remount mounts the disk again after Unmount.
func (d *Disk) Remount(t testing.TB) {
	t.Helper()
	device, err := loop(d.image)
	if err != nil {
		t.Fatal(err)
	}
	d.attach(t, device)
}

// attach mounts the device, which goes away by itself when it is unmounted.
func (d *Disk) attach(t testing.TB, device string) {
	t.Helper()
	args := []string{"-t", d.kind, device, d.Dir}
	if d.options != "" {
		args = append(args, "-o", d.options)
	}
	out, err := exec.Command("mount", args...).CombinedOutput() //nolint:gosec // of a test
	run(t, "losetup", "-d", device)
	if err != nil {
		t.Fatalf("mount %q: %v: %s", args, err, out)
	}
	d.device = device
}

// Unmount takes the file system away, whatever state it is in. No file of it may be open.
func (d *Disk) Unmount(t testing.TB) {
	t.Helper()
	if d.device == "" {
		return
	}
	err := unix.Unmount(d.Dir, 0)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	// A process that another test is just starting has copies of all descriptors until it runs.
	for tries := 0; errors.Is(err, unix.EBUSY) && tries < 1000; tries++ {
		<-tick.C
		err = unix.Unmount(d.Dir, 0)
	}
	if err != nil {
		t.Errorf("unmount %s: %v", d.Dir, err)
		_ = unix.Unmount(d.Dir, unix.MNT_DETACH)
	}
	d.device = ""
}

// Sync makes all of the file system durable, as the kernel does some time.
func (d *Disk) Sync(t testing.TB) {
	t.Helper()
	d.open(t, unix.Syncfs)
}

// Break gives an ext4 an error, as damage in its metadata would: with the option
// errors=remount-ro nothing is written any more.
func (d *Disk) Break(t testing.TB) {
	t.Helper()
	name := "/sys/fs/ext4/" + filepath.Base(d.device) + "/trigger_fs_error"
	if err := os.WriteFile(name, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

// shutdownNow is the ioctl of ext4, xfs and f2fs that ends a mount; without flushing, the journal
// is not even written.
const (
	shutdownNow  = 0x8004587d
	withoutFlush = 2
)

// Cut ends the mount at once, as a cable that is pulled out.
func (d *Disk) Cut(t testing.TB) {
	t.Helper()
	d.open(t, func(fd int) error { return unix.IoctlSetPointerInt(fd, shutdownNow, withoutFlush) })
}

// Check repairs an ext4 that is not mounted.
func (d *Disk) Check(t testing.TB) {
	t.Helper()
	out, err := exec.Command("e2fsck", "-fy", d.image).CombinedOutput() //nolint:gosec // of a test
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) { // 1: errors were corrected
		t.Fatalf("e2fsck: %v: %s", err, out)
	}
}

// Snapshot is a copy of an ext4 as it is on its blocks now, while it is in use, mounted beside it:
// what the kernel has not written yet is not in it.
func (d *Disk) Snapshot(t testing.TB) *Disk {
	t.Helper()
	s := &Disk{Dir: filepath.Join(t.TempDir(), "disk"), kind: d.kind, options: d.options, image: filepath.Join(t.TempDir(), "image")}
	if err := errors.Join(copyFile(s.image, d.image), os.Mkdir(s.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	s.Check(t) // the journal, and what was written during the copy
	s.Remount(t)
	t.Cleanup(func() { s.Unmount(t) })
	return s
}

func copyFile(to, from string) error {
	r, err := os.Open(from) //nolint:gosec // of a test
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to) //nolint:gosec // of a test
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// Small mounts a tmpfs of so many bytes for the test; false when this user may not mount.
func Small(t testing.TB, size string) (d *Disk, ok bool) {
	t.Helper()
	d = &Disk{Dir: t.TempDir()}
	err := unix.Mount("tmpfs", d.Dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=0700,size="+size)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, false
	}
	if err != nil {
		t.Fatalf("mount a tmpfs on %s: %v", d.Dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", d.Dir, err)
		}
	})
	return d, true
}

// Fill takes all the space that is left and returns what gives it back.
func (d *Disk) Fill(t testing.TB) (free func()) {
	t.Helper()
	name := filepath.Join(d.Dir, "fill")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for n := len(piece); n > 0; {
		switch _, err := f.Write(piece[:n]); {
		case errors.Is(err, unix.ENOSPC):
			if n /= 2; n < unix.Getpagesize() {
				d.Sync(t)
			}
		case err != nil:
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		d.Sync(t)
	}
}

func (d *Disk) open(t testing.TB, f func(fd int) error) {
	t.Helper()
	dir, err := os.Open(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := f(int(dir.Fd())); err != nil {
		t.Fatalf("%s: %v", d.Dir, err)
	}
}

// loop makes a block device of a file.
func loop(image string) (string, error) {
	out, err := exec.Command("losetup", "-f", "--show", image).CombinedOutput() //nolint:gosec // of a test
	if err != nil {
		return "", fmt.Errorf("losetup: %w: %s", err, bytes.TrimSpace(out))
	}
	return string(bytes.TrimSpace(out)), nil
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil { //nolint:gosec // of a test
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

func missing(t testing.TB, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("RINGFENCE_REQUIRE"), ","), "loop") {
		t.Fatalf("RINGFENCE_REQUIRE demands loop, but %s", why)
	}
	t.Skipf("no disk: %s", why) //nolint:forbidigo // RINGFENCE_REQUIRE makes it a failure
}
