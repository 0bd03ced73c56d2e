package vfs_test

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

// A child process must not hold the locks of its parent: files are close-on-exec.
func TestLockIsNotInheritedByAChildProcess(t *testing.T) {
	if os.Getenv("VFS_CHILD") != "" {
		os.Stdout.WriteString("started\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent lets go
		return
	}
	t.Parallel()
	fsys, err := vfs.OpenOS(t.TempDir())
	must(t, err)
	defer fsys.Close()
	f := create(t, fsys, "lock")
	must(t, f.Lock(true))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockIsNotInheritedByAChildProcess$")
	child.Env = append(os.Environ(), "VFS_CHILD=1")
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	_, err = io.ReadFull(out, make([]byte, len("started\n")))
	must(t, err)
	must(t, f.Close())
	if got, err := create(t, fsys, "lock").TryLock(true); err != nil || !got {
		t.Errorf("TryLock while a child of the former holder runs: %v, %v", got, err)
	}
	must(t, in.Close())
	_, _ = io.Copy(io.Discard, out)
	must(t, child.Wait())
}
