//go:build linux

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memFile is one open of a file. It stands for the open file description that owns locks.
type memFile struct {
	fs     *Mem
	node   *fileNode
	name   string
	access int
	closed bool
	owed   error // the next SyncData tells it
}

// run does one operation with the machine locked.
func (f *memFile) run(op string, do func() error) error {
	f.fs.m.mu.Lock()
	defer f.fs.m.mu.Unlock()
	err := f.usable()
	if err == nil {
		err = do()
	}
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

func (f *memFile) usable() error {
	switch {
	case f.fs.p.killed:
		return ErrKilled
	case f.closed:
		return fs.ErrClosed
	}
	return nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Size() (size int64, err error) {
	err = f.run("stat", func() error { size = f.node.size; return nil })
	return size, err
}

func (f *memFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.run("read", func() error {
		switch {
		case off < 0:
			return syscall.EINVAL
		case f.access == os.O_WRONLY:
			return syscall.EBADF
		}
		if n = f.node.readAt(p, off); n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.run("write", func() error {
		switch {
		case off < 0:
			return syscall.EINVAL
		case f.access == os.O_RDONLY:
			return syscall.EBADF
		}
		return f.node.writeAt(f.fs.m, p, off)
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) SyncData() error {
	return f.run("fdatasync", func() error {
		f.node.sync()
		f.fs.m.writeBackMapped()
		err := f.owed
		f.owed = nil
		return err
	})
}

// loseSync is what Inject calls instead of SyncData when it makes that fail. Each open of the file
// hears of it once; f does by Inject.
func (f *memFile) loseSync(lost error) {
	_ = f.run("fdatasync", func() error {
		f.node.loseSync(f.fs.m)
		for other := range f.node.opens {
			other.owed = lost
		}
		f.owed = nil
		return nil
	})
}

func (f *memFile) Truncate(size int64) error {
	return f.run("truncate", func() error {
		if size < 0 || f.access == os.O_RDONLY {
			return syscall.EINVAL
		}
		return f.node.truncate(f.fs.m, size)
	})
}

func (f *memFile) Lock(exclusive bool) error {
	return f.run("flock", func() error {
		f.letGo() // a conversion is not atomic on Linux either
		for !f.node.lock(f, exclusive) {
			f.fs.m.changed.Wait()
			if err := f.usable(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *memFile) TryLock(exclusive bool) (won bool, err error) {
	err = f.run("flock", func() error {
		f.letGo()
		won = f.node.lock(f, exclusive)
		return nil
	})
	return won, err
}

func (f *memFile) Unlock() error {
	return f.run("flock", func() error { f.letGo(); return nil })
}

// letGo releases the lock of f, if it has one.
func (f *memFile) letGo() {
	f.node.unlock(f)
	f.fs.m.changed.Broadcast()
}

func (n *fileNode) lock(f *memFile, exclusive bool) bool {
	for _, other := range n.locks {
		if other || exclusive {
			return false
		}
	}
	n.locks[f] = exclusive
	return true
}

func (n *fileNode) unlock(f *memFile) { delete(n.locks, f) }

func (f *memFile) Close() error {
	return f.run("close", func() error {
		f.closed = true
		f.letGo()
		delete(f.node.opens, f)
		delete(f.fs.p.files, f)
		return nil
	})
}

func (f *memFile) Map(size int64, writable bool) (m Mapping, err error) {
	err = f.run("mmap", func() error {
		if f.access == os.O_WRONLY || writable && f.access == os.O_RDONLY {
			return syscall.EACCES
		}
		if err := f.node.share(); err != nil {
			return err
		}
		if !slices.Contains(f.fs.m.mapped, f.node) {
			f.fs.m.mapped = append(f.fs.m.mapped, f.node)
		}
		shared, err := mapShared(int(f.node.shm.Fd()), size, writable)
		if err != nil {
			return err
		}
		mm := &memMapping{mapping: shared, fs: f.fs, node: f.node}
		f.node.mappings[mm] = size
		if writable {
			f.node.storable = max(f.node.storable, size)
			f.fs.p.writable[mm] = struct{}{}
		}
		m = mm
		return nil
	})
	return m, err
}

// memMapping outlives its process: a goroutine of a killed one may still look at it.
type memMapping struct {
	*mapping
	fs   *Mem
	node *fileNode
}

func (m *memMapping) Close() error {
	m.fs.m.mu.Lock()
	defer m.fs.m.mu.Unlock()
	delete(m.node.mappings, m)
	delete(m.fs.p.writable, m)
	return m.mapping.Close()
}

// detach makes the mapping a copy on write of the same pages, at the same address. The kernel does
// it in one step: a store goes to the shared page before it, or to the copy after it.
func (m *memMapping) detach() {
	_, err := unix.MmapPtr(int(m.node.shm.Fd()), 0, unsafe.Pointer(unsafe.SliceData(m.b)), uintptr(len(m.b)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		panic("vfs: detach a mapping of a killed process: " + err.Error())
	}
}
