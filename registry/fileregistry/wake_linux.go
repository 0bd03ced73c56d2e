package fileregistry

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// inotifyWaker wakes through writes to a file that is never read: the kernel queues an event for
// every process that watches it, and the runtime's poller waits for all of them without a thread.
type inotifyWaker struct {
	events *os.File
	file   *os.File
	buf    [4096]byte
}

func newInotifyWaker(path string) (*inotifyWaker, error) {
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
	return &inotifyWaker{events: os.NewFile(uintptr(fd), "inotify"), file: file}, nil
}

func (w *inotifyWaker) poke() { _, _ = w.file.WriteAt([]byte{1}, 0) } // a missed one is caught by the keeper

func (w *inotifyWaker) wait() error {
	_, err := w.events.Read(w.buf[:])
	return err
}

func (w *inotifyWaker) close() error { return errors.Join(w.events.Close(), w.file.Close()) }
