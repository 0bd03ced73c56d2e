package vfs

import (
	"io/fs"
	"path"
	"sync/atomic"
	"syscall"
)

// OpKind is a kind of file system operation.
type OpKind string

// The kinds of operations that Inject shows to its hook.
const (
	OpOpen     OpKind = "open"
	OpOpenDir  OpKind = "opendir"
	OpMkdir    OpKind = "mkdir"
	OpRename   OpKind = "rename"
	OpRemove   OpKind = "remove" // also RemoveAll
	OpReadDir  OpKind = "readdir"
	OpStat     OpKind = "stat" // also Size and Kind
	OpSyncDir  OpKind = "syncdir"
	OpRead     OpKind = "read"
	OpWrite    OpKind = "write"
	OpSync     OpKind = "sync"
	OpTruncate OpKind = "truncate"
	OpLock     OpKind = "lock" // also TryLock
	OpUnlock   OpKind = "unlock"
	OpMap      OpKind = "map"
	OpClose    OpKind = "close"
)

// Changes tells whether an operation of this kind changes what a crash could leave.
func (k OpKind) Changes() bool {
	switch k {
	case OpOpen, OpMkdir, OpRename, OpRemove, OpSyncDir, OpWrite, OpSync, OpTruncate:
		return true
	}
	return false
}

// Op is an operation that is about to happen.
type Op struct {
	Kind   OpKind
	Name   string // from the top, also of what is done through a Dir
	Offset int64  // of a read or write; the new size of a truncation
	Length int    // of a read or write; the size of a mapping
	Data   []byte // of a write; not to be changed or kept
	Count  int64  // 1 for the first operation of the file system
	// Short lets the first Short bytes of a write that fails be written.
	Short int
}

// Inject is a file system that shows each operation to hook before it does it. When hook
// returns an error the operation fails with it instead: pass syscall.EIO, ENOSPC or EROFS. hook
// may block, and is called concurrently when the file system is.
//
// A failed SyncData on a file of a Mem loses dirty blocks as Linux does: they stay readable,
// and a later SyncData does not write them. Each other open of the file, in any process, is told of the
// error once, by its next SyncData; a later open is not.
func Inject(under FS, hook func(*Op) error) FS {
	return &injected{FS: under, hook: hook, count: new(atomic.Int64)}
}

type injected struct {
	FS
	at    string // the name of its top
	hook  func(*Op) error
	count *atomic.Int64
}

// injectedDir is the part of an injected file system below one directory.
type injectedDir struct {
	*injected
	dir Dir
}

func (i *injected) OpenDir(name string) (Dir, error) {
	if err := i.ask(&Op{Kind: OpOpenDir, Name: name}); err != nil {
		return nil, err
	}
	d, err := i.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &injectedDir{&injected{FS: d, at: path.Join(i.at, name), hook: i.hook, count: i.count}, d}, nil
}

func (d *injectedDir) Close() error {
	if err := d.ask(&Op{Kind: OpClose, Name: "."}); err != nil {
		d.dir.Close()
		return err
	}
	return d.dir.Close()
}

// ask shows an operation on a name below the top to the hook.
func (i *injected) ask(op *Op) error {
	op.Name = path.Join(i.at, op.Name)
	op.Count = i.count.Add(1)
	if err := i.hook(op); err != nil {
		return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: err}
	}
	return nil
}

func (i *injected) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := i.ask(&Op{Kind: OpOpen, Name: name}); err != nil {
		return nil, err
	}
	f, err := i.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &injectedFile{File: f, fs: i}, nil
}

func (i *injected) MkdirAll(name string, perm fs.FileMode) error {
	if err := i.ask(&Op{Kind: OpMkdir, Name: name}); err != nil {
		return err
	}
	return i.FS.MkdirAll(name, perm)
}

func (i *injected) Rename(from, to string) error {
	if err := i.ask(&Op{Kind: OpRename, Name: to}); err != nil {
		return err
	}
	return i.FS.Rename(from, to)
}

func (i *injected) Remove(name string) error {
	if err := i.ask(&Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return i.FS.Remove(name)
}

func (i *injected) RemoveAll(name string) error {
	if err := i.ask(&Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return i.FS.RemoveAll(name)
}

func (i *injected) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := i.ask(&Op{Kind: OpReadDir, Name: name}); err != nil {
		return nil, err
	}
	return i.FS.ReadDir(name)
}

func (i *injected) Stat(name string) (fs.FileInfo, error) {
	if err := i.ask(&Op{Kind: OpStat, Name: name}); err != nil {
		return nil, err
	}
	return i.FS.Stat(name)
}

func (i *injected) SyncDir(name string) error {
	if err := i.ask(&Op{Kind: OpSyncDir, Name: name}); err != nil {
		return err
	}
	return i.FS.SyncDir(name)
}

func (i *injected) Kind(name string) (Kind, error) {
	if err := i.ask(&Op{Kind: OpStat, Name: name}); err != nil {
		return Kind{}, err
	}
	return i.FS.Kind(name)
}

type injectedFile struct {
	File
	fs *injected
}

func (f *injectedFile) ask(kind OpKind) error {
	return f.fs.ask(&Op{Kind: kind, Name: f.Name()})
}

func (f *injectedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.ask(&Op{Kind: OpRead, Name: f.Name(), Offset: off, Length: len(p)}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *injectedFile) WriteAt(p []byte, off int64) (int, error) {
	op := &Op{Kind: OpWrite, Name: f.Name(), Offset: off, Length: len(p), Data: p}
	if err := f.fs.ask(op); err != nil {
		if op.Short > 0 {
			n, _ := f.File.WriteAt(p[:min(op.Short, len(p))], off)
			return n, err
		}
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *injectedFile) SyncData() error {
	if err := f.ask(OpSync); err != nil {
		if l, ok := f.File.(interface{ loseSync(err error) }); ok {
			l.loseSync(syscall.EIO)
		}
		return err
	}
	return f.File.SyncData()
}

func (f *injectedFile) Truncate(size int64) error {
	if err := f.fs.ask(&Op{Kind: OpTruncate, Name: f.Name(), Offset: size}); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *injectedFile) Lock(exclusive bool) error {
	if err := f.ask(OpLock); err != nil {
		return err
	}
	return f.File.Lock(exclusive)
}

func (f *injectedFile) TryLock(exclusive bool) (bool, error) {
	if err := f.ask(OpLock); err != nil {
		return false, err
	}
	return f.File.TryLock(exclusive)
}

func (f *injectedFile) Unlock() error {
	if err := f.ask(OpUnlock); err != nil {
		return err
	}
	return f.File.Unlock()
}

func (f *injectedFile) Size() (int64, error) {
	if err := f.ask(OpStat); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *injectedFile) Map(size int64, writable bool) (Mapping, error) {
	if err := f.fs.ask(&Op{Kind: OpMap, Name: f.Name(), Length: int(size)}); err != nil {
		return nil, err
	}
	return f.File.Map(size, writable)
}

func (f *injectedFile) Close() error {
	if err := f.ask(OpClose); err != nil {
		f.File.Close()
		return err
	}
	return f.File.Close()
}
