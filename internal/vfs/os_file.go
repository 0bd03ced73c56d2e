//go:build linux

package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// osFile keeps the raw connection so that a Close at the same time can't let a system call hit
// a descriptor that was given to another file.
type osFile struct {
	*os.File
	raw   syscall.RawConn
	name  string
	pages pages
}

func newOSFile(f *os.File, name string, p pages) (File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{File: f, raw: raw, name: name, pages: p}, nil
}

func (f *osFile) Name() string { return f.name }

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) SyncData() error { return f.call("fdatasync", unix.Fdatasync) }

// WriteAt tells how much was written also when it fails. That of os.File says 0 after a write that was cut short
// (as on a disk that gets full within it), and a caller that wipes what was written would wipe nothing.
func (f *osFile) WriteAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err := f.call("write", func(fd int) (err error) {
			m, err = unix.Pwrite(fd, p[n:], off+int64(n))
			return err
		})
		n += max(m, 0)
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

func (f *osFile) Lock(exclusive bool) error {
	return f.call("flock", func(fd int) error { return unix.Flock(fd, lockMode(exclusive)) })
}

func (f *osFile) TryLock(exclusive bool) (bool, error) {
	busy := false
	err := f.call("flock", func(fd int) error {
		err := unix.Flock(fd, lockMode(exclusive)|unix.LOCK_NB)
		if err == unix.EWOULDBLOCK {
			busy = true
			return nil
		}
		return err
	})
	return err == nil && !busy, err
}

func (f *osFile) Unlock() error {
	return f.call("flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}

func (f *osFile) Map(size int64, writable bool) (Mapping, error) {
	var m Mapping
	elsewhere, err := f.inMemory()
	switch {
	case err != nil:
		return nil, err
	case elsewhere && writable:
		return f.mapMemory(size)
	case elsewhere:
		if m, err := f.peekMemory(size); m != nil || err != nil {
			return m, err
		}
	}
	if writable {
		if err := f.call("allocate", func(fd int) error { return fillHoles(fd, size) }); err != nil {
			return nil, err
		}
	}
	err = f.call("mmap", func(fd int) (err error) {
		m, err = mapShared(fd, size, writable)
		return err
	})
	return m, err
}

// call runs a system call on the descriptor, again when a signal interrupts it.
func (f *osFile) call(op string, sys func(fd int) error) error {
	c := calls.Get().(*call)
	c.sys, c.err = sys, nil
	closed := f.raw.Control(c.control)
	err := c.err
	c.sys = nil
	calls.Put(c)
	if closed != nil {
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.name, Err: err}
	}
	return nil
}

// call is a system call under way. They are used again: three of them make an append, and what each would
// allocate adds up.
type call struct {
	sys     func(fd int) error
	err     error
	control func(fd uintptr) // run
}

var calls = sync.Pool{New: func() any {
	c := new(call)
	c.control = c.run
	return c
}}

func (c *call) run(fd uintptr) {
	c.err = ignoreEINTR(func() error { return c.sys(int(fd)) })
}

func lockMode(exclusive bool) int {
	if exclusive {
		return unix.LOCK_EX
	}
	return unix.LOCK_SH
}

// fillHoles gives the first size bytes of a file their blocks, whatever others store there at the
// same time. A file system that can't, because it is older than fallocate, is left as it is.
func fillHoles(fd int, size int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if size <= 0 || size > st.Size {
		return unix.EINVAL
	}
	// Nothing uses the descriptor's own offset. Some file systems want free blocks for an
	// allocation of what is allocated, so it is asked for only where there is a hole.
	if hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE); err == nil && hole >= size {
		return nil
	}
	err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return nil
	}
	return err
}

// mapShared maps the first size bytes of a descriptor. A mapping past the end of the file would
// kill the process with SIGBUS at the first access, so that is refused here.
func mapShared(fd int, size int64, writable bool) (*mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if size <= 0 || size > st.Size {
		return nil, unix.EINVAL
	}
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &mapping{b: b}, nil
}

type mapping struct{ b []byte }

func (m *mapping) Bytes() []byte { return m.b }

func (m *mapping) Close() error {
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b = nil
	return unix.Munmap(b)
}
