//go:build linux

package vfs

import (
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

// enter locks the machine for one operation; the caller unlocks when err is nil.
func (f *memFile) enter(op string) error {
	f.fs.m.mu.Lock()
	err := f.usable()
	if err != nil {
		f.fs.m.mu.Unlock()
		return f.fail(op, err)
	}
	return nil
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

func (f *memFile) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Size() (int64, error) {
	if err := f.enter("stat"); err != nil {
		return 0, err
	}
	defer f.fs.m.mu.Unlock()
	return f.node.size, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	defer f.fs.m.mu.Unlock()
	switch {
	case off < 0:
		return 0, f.fail("read", syscall.EINVAL)
	case f.access == os.O_WRONLY:
		return 0, f.fail("read", syscall.EBADF)
	}
	n := f.node.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.enter("write"); err != nil {
		return 0, err
	}
	defer f.fs.m.mu.Unlock()
	switch {
	case off < 0:
		return 0, f.fail("write", syscall.EINVAL)
	case f.access == os.O_RDONLY:
		return 0, f.fail("write", syscall.EBADF)
	}
	if err := f.node.writeAt(f.fs.m, p, off); err != nil {
		return 0, f.fail("write", err)
	}
	return len(p), nil
}

func (f *memFile) SyncData() error {
	if err := f.enter("fdatasync"); err != nil {
		return err
	}
	defer f.fs.m.mu.Unlock()
	f.node.sync()
	f.fs.m.writeBackMapped()
	if err := f.owed; err != nil {
		f.owed = nil
		return f.fail("fdatasync", err)
	}
	return nil
}

// loseSync is what Inject calls instead of SyncData when it makes that fail. All who have the file open
// are told once; f is told by Inject.
func (f *memFile) loseSync(err error) {
	if f.enter("fdatasync") == nil {
		f.node.loseSync(f.fs.m)
		for other := range f.node.opens {
			other.owed = err
		}
		f.owed = nil
		f.fs.m.mu.Unlock()
	}
}

func (f *memFile) Truncate(size int64) error {
	if err := f.enter("truncate"); err != nil {
		return err
	}
	defer f.fs.m.mu.Unlock()
	if size < 0 || f.access == os.O_RDONLY {
		return f.fail("truncate", syscall.EINVAL)
	}
	if err := f.node.truncate(f.fs.m, size); err != nil {
		return f.fail("truncate", err)
	}
	return nil
}

func (f *memFile) Lock(exclusive bool) error {
	if err := f.enter("flock"); err != nil {
		return err
	}
	defer f.fs.m.mu.Unlock()
	f.node.unlock(f) // a conversion is not atomic on Linux either
	f.fs.m.changed.Broadcast()
	for !f.node.lock(f, exclusive) {
		f.fs.m.changed.Wait()
		if err := f.usable(); err != nil {
			return f.fail("flock", err)
		}
	}
	return nil
}

func (f *memFile) TryLock(exclusive bool) (bool, error) {
	if err := f.enter("flock"); err != nil {
		return false, err
	}
	defer f.fs.m.mu.Unlock()
	f.node.unlock(f)
	f.fs.m.changed.Broadcast()
	return f.node.lock(f, exclusive), nil
}

func (f *memFile) Unlock() error {
	if err := f.enter("flock"); err != nil {
		return err
	}
	defer f.fs.m.mu.Unlock()
	f.node.unlock(f)
	f.fs.m.changed.Broadcast()
	return nil
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
	if err := f.enter("close"); err != nil {
		return err
	}
	defer f.fs.m.mu.Unlock()
	f.closed = true
	f.node.unlock(f)
	delete(f.node.opens, f)
	delete(f.fs.p.files, f)
	f.fs.m.changed.Broadcast()
	return nil
}

func (f *memFile) Map(size int64, writable bool) (Mapping, error) {
	if err := f.enter("mmap"); err != nil {
		return nil, err
	}
	defer f.fs.m.mu.Unlock()
	if f.access == os.O_WRONLY || writable && f.access == os.O_RDONLY {
		return nil, f.fail("mmap", syscall.EACCES)
	}
	if err := f.node.share(); err != nil {
		return nil, f.fail("mmap", err)
	}
	if !slices.Contains(f.fs.m.mapped, f.node) {
		f.fs.m.mapped = append(f.fs.m.mapped, f.node)
	}
	m, err := mapShared(int(f.node.shm.Fd()), size, writable)
	if err != nil {
		return nil, f.fail("mmap", err)
	}
	if writable {
		f.node.storable = max(f.node.storable, size)
	}
	mm := &memMapping{mapping: m, fs: f.fs, node: f.node}
	f.node.mappings[mm] = size
	if writable {
		f.fs.p.writable[mm] = struct{}{}
	}
	return mm, nil
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
