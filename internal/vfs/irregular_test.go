//go:build linux

package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/vfs"
)

// A FIFO in the place of a file must not keep whoever opens it, past every time-out.
func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := vfs.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		done := make(chan error, 1)
		go func() { // it ends with the other end of the FIFO at the latest
			f, err := o.OpenFile("fifo", flag, 0o600)
			if err == nil {
				f.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, vfs.ErrIrregular) {
				t.Errorf("flags %#x: %v; expected that it is no file", flag, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("flags %#x: nobody comes to the other end, and it waits", flag)
			if other, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_RDWR, 0); err == nil {
				<-done
				other.Close()
			}
		}
	}
}
