//go:build linux

package vfs_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/internal/vfs"
)

func TestWritableMappingHasABlockBehindEveryPage(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	fsys, err := vfs.OpenOS(t.TempDir())
	must(t, err)
	defer fsys.Close()
	f := create(t, fsys, "sparse")
	defer f.Close()
	must(t, f.Truncate(size))
	write(t, f, 5*4096, []byte("kept"))
	m, err := f.Map(size, true)
	must(t, err)
	defer m.Close()
	if got := string(m.Bytes()[5*4096:][:4]); got != "kept" {
		t.Errorf("content became %q", got)
	}
	st, err := os.Stat(fsys.Path("sparse"))
	must(t, err)
	if blocks := st.Sys().(*syscall.Stat_t).Blocks * 512; blocks < size {
		t.Errorf("%d bytes are allocated of %d that can be stored to", blocks, size)
	}
}

// Without the allocation the store below ends the test binary with SIGBUS.
func TestOnAFullDiskAMappingIsRefusedOrCanBeStoredTo(t *testing.T) {
	t.Parallel()
	disk, ok := testdisk.Small(t, "1m")
	if !ok {
		t.Log("this user may not mount a file system; the allocation itself is tested above")
		return
	}
	dir := disk.Dir
	fsys, err := vfs.OpenOS(dir)
	must(t, err)
	defer fsys.Close()
	sparse, early := create(t, fsys, "sparse"), create(t, fsys, "early")
	defer sparse.Close()
	defer early.Close()
	must(t, sparse.Truncate(1<<16))
	must(t, early.Truncate(1<<16))
	m, err := early.Map(1<<16, true)
	must(t, err)
	defer m.Close()
	free := disk.Fill(t)
	for at := 0; at < 1<<16; at += 4096 {
		m.Bytes()[at] = 1
	}
	if m, err := sparse.Map(1<<16, true); err == nil {
		m.Close()
		t.Fatal("a mapping with holes was given out on a full disk")
	} else {
		wantIs(t, err, syscall.ENOSPC)
	}
	free()
	late, err := sparse.Map(1<<16, true)
	// A child that another test forks has the file that filled the disk until it executes.
	for end := time.Now().Add(time.Minute); errors.Is(err, syscall.ENOSPC) && time.Now().Before(end); runtime.Gosched() {
		late, err = sparse.Map(1<<16, true)
	}
	must(t, err)
	late.Bytes()[0] = 1
	must(t, late.Close())
}
