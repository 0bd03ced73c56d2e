//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"sync"
	"syscall"
	"time"
)

// ErrKilled is what every call of a killed process returns.
var ErrKilled = errors.New("the process of this file system handle was killed")

// Mem is a file system in memory that can crash, as one process sees it.
//
// What was not made durable may be lost: see Crash. Locks, mappings and the page cache are
// shared by all processes of one machine (Process), as on a real host.
//
// With one goroutine, all that happens follows from the seed.
type Mem struct {
	m      *machine
	p      *process
	top    *dirNode // where names begin: the root, or the directory of a Dir
	at     string   // what top was called when it was opened
	closed bool     // of a Dir; guarded by machine.mu
}

var _ FS = (*Mem)(nil)

// machine is one host from its boot to its crash. mu guards everything below it.
type machine struct {
	mu       sync.Mutex
	changed  *sync.Cond // a lock was released, or a process died
	rng      *rand.Rand
	past     *rand.Rand // what of the past comes back
	mapped   []*fileNode
	boot     string
	root     *dirNode
	kind     Kind
	capacity int64 // bytes of all files together; 0: no bound
}

type process struct {
	killed   bool
	files    map[*memFile]struct{}
	writable map[*memMapping]struct{}
}

// NewMem is an empty file system on a new machine.
func NewMem(seed uint64) *Mem {
	m := &machine{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), past: rand.New(rand.NewPCG(seed, 1)), root: newDirNode(0o755), kind: Kind{Type: "mem", FreeBytes: 1 << 40}}
	m.boot = m.newBoot()
	return m.start()
}

func (m *machine) newBoot() string { return fmt.Sprintf("mem-%016x", m.rng.Uint64()) }

func (m *machine) start() *Mem {
	m.changed = sync.NewCond(&m.mu)
	return &Mem{m: m, p: newProcess(), top: m.root}
}

func newProcess() *process {
	return &process{files: map[*memFile]struct{}{}, writable: map[*memMapping]struct{}{}}
}

// Process is the same machine as another process sees it.
func (f *Mem) Process() *Mem { return &Mem{m: f.m, p: newProcess(), top: f.m.root} }

// Kill ends this process as kill -9 does: its locks are released, every later call of it fails
// with ErrKilled, and what it wrote stays in the page cache. Its goroutines run on, and what they
// store into their mappings from now on no other process sees. That comes first: the next holder of the
// locks must find the pages as the dead process left them.
func (f *Mem) Kill() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.p.killed = true
	for m := range f.p.writable {
		m.detach()
	}
	for file := range f.p.files {
		file.node.unlock(file)
		delete(file.node.opens, file)
	}
	f.p.files = nil
	f.m.changed.Broadcast()
}

// SetKind changes what Kind reports, to play a network or read-only file system.
func (f *Mem) SetKind(k Kind) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.kind = k
}

// SetCapacity bounds the size of all files together; growing past it is ENOSPC. 0: no bound.
func (f *Mem) SetCapacity(bytes int64) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.capacity = bytes
}

// run does one operation on names with the machine locked.
func (f *Mem) run(op string, do func() error, names ...string) error {
	for _, name := range names {
		if !fs.ValidPath(name) {
			return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
		}
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	var err error
	switch {
	case f.p.killed:
		err = ErrKilled
	case f.closed:
		err = fs.ErrClosed
	default:
		err = do()
	}
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path.Join(names...), Err: err}
}

// OpenFile opens a file.
func (f *Mem) OpenFile(name string, flag int, perm fs.FileMode) (file File, err error) {
	err = f.run("open", func() error {
		node, err := f.open(name, flag, perm)
		if err != nil {
			return err
		}
		m := &memFile{fs: f, node: node, name: name, access: flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)}
		f.p.files[m] = struct{}{}
		node.opens[m] = struct{}{}
		file = m
		return nil
	}, name)
	return file, err
}

func (f *Mem) open(name string, flag int, perm fs.FileMode) (*fileNode, error) {
	dir, base, err := f.top.parent(name)
	if err != nil {
		return nil, err
	}
	switch n := dir.live[base].(type) {
	case nil:
		if flag&os.O_CREATE == 0 || dir.removed {
			return nil, syscall.ENOENT
		}
		node := newFileNode(perm)
		dir.apply(&dirOp{changes: []change{{dir, base, node}}})
		return node, nil
	case *fileNode:
		if flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0 {
			return nil, syscall.EEXIST
		}
		if flag&os.O_TRUNC != 0 {
			if err := n.truncate(f.m, 0); err != nil {
				return nil, err
			}
		}
		return n, nil
	default:
		return nil, syscall.EISDIR
	}
}

// MkdirAll makes a directory and its missing parents.
func (f *Mem) MkdirAll(name string, perm fs.FileMode) error {
	return f.run("mkdir", func() error {
		dir := f.top
		for _, part := range split(name) {
			switch n := dir.live[part].(type) {
			case nil:
				if dir.removed {
					return syscall.ENOENT
				}
				next := newDirNode(perm)
				dir.apply(&dirOp{changes: []change{{dir, part, next}}})
				dir = next
			case *dirNode:
				dir = n
			default:
				return syscall.ENOTDIR
			}
		}
		return nil
	}, name)
}

// Rename moves a file or directory and replaces a file that is in its way.
func (f *Mem) Rename(from, to string) error {
	return f.run("rename", func() error { return f.rename(from, to) }, from, to)
}

func (f *Mem) rename(from, to string) error {
	fromDir, fromBase, err := f.top.parent(from)
	if err != nil {
		return err
	}
	toDir, toBase, err := f.top.parent(to)
	if err != nil {
		return err
	}
	node := fromDir.live[fromBase]
	if node == nil {
		return syscall.ENOENT
	}
	d, isDir := node.(*dirNode)
	switch toDir.live[toBase].(type) {
	case *dirNode:
		return syscall.EEXIST // as os.Rename has it, even for an empty one
	case *fileNode:
		if isDir {
			return syscall.ENOTDIR
		}
	}
	if isDir && d.contains(toDir) {
		return syscall.EINVAL
	}
	if node == toDir.live[toBase] {
		return nil
	}
	fromDir.apply(&dirOp{changes: []change{{fromDir, fromBase, nil}, {toDir, toBase, node}}})
	return nil
}

// Remove removes a file or an empty directory. Open files live on.
func (f *Mem) Remove(name string) error {
	return f.run("remove", func() error {
		dir, base, err := f.top.parent(name)
		if err != nil {
			return err
		}
		switch n := dir.live[base].(type) {
		case nil:
			return syscall.ENOENT
		case *dirNode:
			if len(n.live) > 0 {
				return syscall.ENOTEMPTY
			}
			n.removed = true
		}
		dir.apply(&dirOp{changes: []change{{dir, base, nil}}})
		return nil
	}, name)
}

// RemoveAll removes a tree, leaves first, as a real one does it.
func (f *Mem) RemoveAll(name string) error {
	return f.run("removeall", func() error {
		dir, base, err := f.top.parent(name)
		if err == nil {
			dir.removeTree(base)
		}
		return ignore(err, syscall.ENOENT)
	}, name)
}

// ReadDir lists a directory, sorted by name.
func (f *Mem) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = f.run("readdir", func() error {
		dir, err := f.top.dir(name)
		if err == nil && dir.removed {
			err = syscall.ENOENT
		}
		if err != nil {
			return err
		}
		list = make([]fs.DirEntry, 0, len(dir.live))
		for _, base := range sortedKeys(dir.live) {
			list = append(list, fs.FileInfoToDirEntry(dir.live[base].info(base)))
		}
		return nil
	}, name)
	return list, err
}

// Stat describes a file or directory.
func (f *Mem) Stat(name string) (info fs.FileInfo, err error) {
	err = f.run("stat", func() error {
		n, err := f.top.lookup(name)
		if err == nil {
			info = n.info(path.Base(name))
		}
		return err
	}, name)
	return info, err
}

// SyncDir makes the entries of a directory durable.
func (f *Mem) SyncDir(name string) error {
	return f.run("syncdir", func() error {
		dir, err := f.top.dir(name)
		if err == nil {
			dir.flush(len(dir.pending))
		}
		return err
	}, name)
}

// Kind is what SetKind said, with the free bytes that SetCapacity leaves.
func (f *Mem) Kind(name string) (k Kind, err error) {
	err = f.run("statfs", func() error {
		if k = f.m.kind; f.m.capacity > 0 {
			k.FreeBytes = max(0, f.m.capacity-f.m.root.bytes())
		}
		return nil
	}, name)
	return k, err
}

// Path is a path that does not exist on the real file system.
func (f *Mem) Path(name string) string { return path.Join("/mem", f.m.boot, f.at, name) }

// BootID changes with every crash.
func (f *Mem) BootID() string { return f.m.boot }

// now is the time for file infos. It is the only thing that does not follow from the seed.
func now() time.Time { return time.Now() }
