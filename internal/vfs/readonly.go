package vfs

import (
	"io/fs"
	"os"
	"syscall"
)

// ReadOnly is a file system through which nothing is written: files are opened for reading, also on a read-only
// mount, and what would change something is EROFS. Kernel locks work, as they need no right to write.
//
// A file on tmpfs is copied where it is mapped: a page fault in a hole takes a block there, and is a SIGBUS when
// none is left. A read takes none.
func ReadOnly(under FS) FS { return readOnly{under} }

type readOnly struct{ FS }

type readOnlyDir struct {
	readOnly
	dir Dir
}

func (d readOnlyDir) Close() error { return d.dir.Close() }

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (r readOnly) OpenFile(name string, _ int, _ fs.FileMode) (File, error) {
	f, err := r.FS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	kind, err := r.FS.Kind(name)
	return readOnlyFile{f, err == nil && kind.Type == "tmpfs"}, nil
}

func (r readOnly) OpenDir(name string) (Dir, error) {
	d, err := r.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return readOnlyDir{readOnly{d}, d}, nil
}

func (readOnly) MkdirAll(name string, _ fs.FileMode) error { return refuse("mkdir", name) }
func (readOnly) Rename(_, to string) error                 { return refuse("rename", to) }
func (readOnly) Remove(name string) error                  { return refuse("remove", name) }
func (readOnly) RemoveAll(name string) error               { return refuse("remove", name) }
func (readOnly) SyncDir(name string) error                 { return refuse("sync", name) }

type readOnlyFile struct {
	File
	copies bool
}

func (f readOnlyFile) WriteAt([]byte, int64) (int, error) { return 0, refuse("write", f.Name()) }
func (f readOnlyFile) SyncData() error                    { return refuse("fdatasync", f.Name()) }
func (f readOnlyFile) Truncate(int64) error               { return refuse("truncate", f.Name()) }

func (f readOnlyFile) Map(size int64, writable bool) (Mapping, error) {
	if writable {
		return nil, refuse("mmap", f.Name())
	}
	if !f.copies {
		return f.File.Map(size, false)
	}
	b := make(copied, size)
	_, err := f.ReadAt(b, 0)
	return b, err
}

// copied is a mapping that is none.
type copied []byte

func (c copied) Bytes() []byte { return c }
func (copied) Close() error    { return nil }
