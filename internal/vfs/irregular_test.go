//go:build linux

package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
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
	file := func(flag int) func() error {
		return func() error {
			f, err := o.OpenFile("fifo", flag, 0o600)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	for _, c := range []struct {
		name string
		open func() error
		want error
	}{
		{"to read", file(os.O_RDONLY), vfs.ErrIrregular},
		{"to write", file(os.O_RDWR), vfs.ErrIrregular},
		{"to make", file(os.O_RDWR | os.O_CREATE), vfs.ErrIrregular},
		{"as a directory", func() error {
			d, err := o.OpenDir("fifo")
			if err == nil {
				d.Close()
			}
			return err
		}, syscall.ENOTDIR},
		{"to list", func() error {
			_, err := o.ReadDir("fifo")
			return err
		}, syscall.ENOTDIR},
		{"to sync", func() error { return o.SyncDir("fifo") }, syscall.ENOTDIR},
	} {
		done := make(chan error, 1)
		go func() { done <- c.open() }() // it ends with the other end of the FIFO at the latest
		select {
		case err := <-done:
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v; expected %v", c.name, err, c.want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: nobody comes to the other end, and it waits", c.name)
			if other, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_RDWR, 0); err == nil {
				<-done
				other.Close()
			}
		}
	}
}
