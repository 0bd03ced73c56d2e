package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Bell wakes the processes that share a file, by writes to it that are never read: the kernel queues an event for
// each process, and the runtime's poller waits for it without a thread.
type Bell struct {
	events *os.File
	file   *os.File
	buf    [4096]byte
}

// NewBell opens the file, and makes it if need be.
func NewBell(path string) (*Bell, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if st, err := file.Stat(); err != nil || st.Size() == 0 {
		if err == nil {
			_, err = file.WriteAt([]byte{1}, 0) // a block to poke at, also when the disk is full
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inotify (raise fs.inotify.max_user_instances?): %w", err), file.Close())
	}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify watch of %s (raise fs.inotify.max_user_watches?): %w", path, err), unix.Close(fd), file.Close())
	}
	return &Bell{events: os.NewFile(uintptr(fd), "inotify"), file: file}, nil
}

// Ring wakes all processes, this one as well. It may fail silently: waiting processes have to look at intervals
// anyway, as a process may die before it rings.
func (w *Bell) Ring() { _, _ = w.file.WriteAt([]byte{1}, 0) }

// Wait returns after a ring, or with an error when the bell is closed.
func (w *Bell) Wait() error {
	_, err := w.events.Read(w.buf[:])
	return err
}

// Close ends Wait and releases the file.
func (w *Bell) Close() error { return errors.Join(w.events.Close(), w.file.Close()) }
