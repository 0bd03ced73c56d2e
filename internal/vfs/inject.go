package vfs

import (
	"errors"
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
// and a later SyncData does not write them. Each other open of the file, in any process, hears of the
// error once, by its next SyncData; a later open does not.
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
	return after(i, &Op{Kind: OpOpenDir, Name: name}, func() (Dir, error) {
		d, err := i.FS.OpenDir(name)
		if err != nil {
			return nil, err
		}
		return &injectedDir{&injected{FS: d, at: path.Join(i.at, name), hook: i.hook, count: i.count}, d}, nil
	})
}

func (d *injectedDir) Close() error {
	return errors.Join(d.ask(&Op{Kind: OpClose, Name: "."}), d.dir.Close())
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

// do does an operation unless the hook has it fail.
func (i *injected) do(op *Op, f func() error) error {
	if err := i.ask(op); err != nil {
		return err
	}
	return f()
}

// after is do for an operation that has a result.
func after[T any](i *injected, op *Op, f func() (T, error)) (out T, err error) {
	err = i.do(op, func() (err error) {
		out, err = f()
		return err
	})
	return out, err
}

func (i *injected) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return after(i, &Op{Kind: OpOpen, Name: name}, func() (File, error) {
		f, err := i.FS.OpenFile(name, flag, perm)
		if err != nil {
			return nil, err
		}
		return &injectedFile{File: f, fs: i}, nil
	})
}

func (i *injected) MkdirAll(name string, perm fs.FileMode) error {
	return i.do(&Op{Kind: OpMkdir, Name: name}, func() error { return i.FS.MkdirAll(name, perm) })
}

func (i *injected) Rename(from, to string) error {
	return i.do(&Op{Kind: OpRename, Name: to}, func() error { return i.FS.Rename(from, to) })
}

func (i *injected) Remove(name string) error {
	return i.do(&Op{Kind: OpRemove, Name: name}, func() error { return i.FS.Remove(name) })
}

func (i *injected) RemoveAll(name string) error {
	return i.do(&Op{Kind: OpRemove, Name: name}, func() error { return i.FS.RemoveAll(name) })
}

func (i *injected) ReadDir(name string) ([]fs.DirEntry, error) {
	return after(i, &Op{Kind: OpReadDir, Name: name}, func() ([]fs.DirEntry, error) { return i.FS.ReadDir(name) })
}

func (i *injected) Stat(name string) (fs.FileInfo, error) {
	return after(i, &Op{Kind: OpStat, Name: name}, func() (fs.FileInfo, error) { return i.FS.Stat(name) })
}

func (i *injected) SyncDir(name string) error {
	return i.do(&Op{Kind: OpSyncDir, Name: name}, func() error { return i.FS.SyncDir(name) })
}

func (i *injected) Kind(name string) (Kind, error) {
	return after(i, &Op{Kind: OpStat, Name: name}, func() (Kind, error) { return i.FS.Kind(name) })
}

type injectedFile struct {
	File
	fs *injected
}

func (f *injectedFile) op(kind OpKind) *Op { return &Op{Kind: kind, Name: f.Name()} }

func (f *injectedFile) ReadAt(p []byte, off int64) (int, error) {
	op := f.op(OpRead)
	op.Offset, op.Length = off, len(p)
	return after(f.fs, op, func() (int, error) { return f.File.ReadAt(p, off) })
}

func (f *injectedFile) WriteAt(p []byte, off int64) (int, error) {
	op := f.op(OpWrite)
	op.Offset, op.Length, op.Data = off, len(p), p
	err := f.fs.ask(op)
	switch {
	case err == nil:
		return f.File.WriteAt(p, off)
	case op.Short > 0:
		n, _ := f.File.WriteAt(p[:min(op.Short, len(p))], off)
		return n, err
	}
	return 0, err
}

func (f *injectedFile) SyncData() error {
	if err := f.fs.ask(f.op(OpSync)); err != nil {
		if l, ok := f.File.(interface{ loseSync(err error) }); ok {
			l.loseSync(syscall.EIO)
		}
		return err
	}
	return f.File.SyncData()
}

func (f *injectedFile) Truncate(size int64) error {
	op := f.op(OpTruncate)
	op.Offset = size
	return f.fs.do(op, func() error { return f.File.Truncate(size) })
}

func (f *injectedFile) Lock(exclusive bool) error {
	return f.fs.do(f.op(OpLock), func() error { return f.File.Lock(exclusive) })
}

func (f *injectedFile) TryLock(exclusive bool) (bool, error) {
	return after(f.fs, f.op(OpLock), func() (bool, error) { return f.File.TryLock(exclusive) })
}

func (f *injectedFile) Unlock() error { return f.fs.do(f.op(OpUnlock), f.File.Unlock) }

func (f *injectedFile) Size() (int64, error) { return after(f.fs, f.op(OpStat), f.File.Size) }

func (f *injectedFile) Map(size int64, writable bool) (Mapping, error) {
	op := f.op(OpMap)
	op.Length = int(size)
	return after(f.fs, op, func() (Mapping, error) { return f.File.Map(size, writable) })
}

func (f *injectedFile) Close() error { return errors.Join(f.fs.ask(f.op(OpClose)), f.File.Close()) }
