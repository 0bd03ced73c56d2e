package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A process with sessions keeps a FIFO open for writing. However it dies, the kernel closes the FIFO, and its
// readers see the end at once. The runtime's poller waits for that, and no thread. It works across PID
// namespaces, and needs no PID that could be reused. A child between fork and exec only delays it, as
// descriptors are close-on-exec.

// Announce makes the FIFO and holds it. It gets its name only once it is held, as one without a holder is a sign
// of a dead process.
func Announce(temp, path string) (io.Closer, error) {
	if err := unix.Mkfifo(temp, 0o600); err != nil {
		return nil, &fs.PathError{Op: "mkfifo", Path: temp, Err: err}
	}
	f, err := os.OpenFile(temp, os.O_RDWR|unix.O_NONBLOCK, 0) // for reading too: it needs no reader
	if err != nil {
		return nil, errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(temp))
	}
	return f, nil
}

// Await returns nil once the process of a FIFO is dead, ErrNotExist if it has none, and another error if this
// can't be told, or ctx ends.
func Await(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })() // ends the reading
	var b [1]byte
	for err == nil {
		_, err = f.Read(b[:])
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return cmp.Or(ctx.Err(), err)
}

// Gone reports whether the process of a FIFO is dead, without waiting.
func Gone(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // no FIFO: other means have to tell
	}
	defer func() { _ = unix.Close(fd) }()
	var b [1]byte
	n, err := unix.Read(fd, b[:])
	return err == nil && n == 0
}
