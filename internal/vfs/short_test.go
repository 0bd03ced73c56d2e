package vfs_test

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A write that a full disk cuts short says how much of it is there: who appends has to wipe that. That
// of the standard library says 0.
func TestWriteAtTellsHowMuchACutWriteWrote(t *testing.T) {
	disk := testdisk.Mount(t, "ext4", 16)
	free := disk.Fill(t)
	defer free()
	if err := os.Truncate(disk.Dir+"/fill", 15<<19); err != nil { // some is free again
		t.Fatal(err)
	}
	disk.Sync(t)
	fsys, err := vfs.OpenOS(disk.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	f, err := fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := bytes.Repeat([]byte("written "), 4<<20)
	n, err := f.WriteAt(all, 0)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a write of more than is free: %v", err)
	}
	size, e := f.Size()
	if e != nil {
		t.Fatal(e)
	}
	if int64(n) != size || n == 0 {
		t.Errorf("%d bytes were written by its own account, %d by the file's size; expected the same, and some", n, size)
	}
}
