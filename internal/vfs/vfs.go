// Package vfs is the file system for everything that must survive a crash.
//
// OS is the real one. Mem is a crashable one in memory: it loses at random what was not synced, and its
// operations can be made to fail, so that power loss, torn writes, EIO and ENOSPC are ordinary tests.
package vfs

import (
	"io"
	"io/fs"
)

// FS is a file system, or the part of one below a root that names can't escape.
// Names are slash-separated and relative to the root.
type FS interface {
	// OpenFile opens name with os.O_* flags (O_CLOEXEC is implied).
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// OpenDir opens a directory that exists.
	OpenDir(name string) (Dir, error)
	MkdirAll(name string, perm fs.FileMode) error
	// Rename and Remove survive a crash only after SyncDir of the parent.
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	ReadDir(name string) ([]fs.DirEntry, error) // sorted by name
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Kind tells what file system name lies on, and the free bytes.
	Kind(name string) (Kind, error)
	// Path is where name is on the real file system, for messages and for inotify; for Mem a made-up one.
	Path(name string) string
	// BootID changes at a reboot (Mem: at a Crash). What was not synced may have been lost without
	// one, too: after an error of the file system, or on a snapshot of its disk.
	BootID() string
}

// Dir is the file system below one directory: that very directory, also when it is renamed or
// removed and another gets its name. In a removed one nothing can be made; that is fs.ErrNotExist.
// What was opened through it stays open when it is closed.
type Dir interface {
	FS
	io.Closer
}

// Kind describes the file system below a path.
type Kind struct {
	Type      string // "ext4", "nfs", "cifs" …; "" when unknown
	Network   bool   // kernel locks or shared mappings can't be trusted between hosts
	ReadOnly  bool
	FreeBytes int64
}

// File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	// SyncData makes written bytes (and the size, if it changed) durable: fdatasync. After an
	// error nothing may be assumed of the bytes written since the last good one, and a later
	// success does not cover them.
	SyncData() error
	Truncate(size int64) error
	// Lock takes a lock on the open file description, waiting for it; released by Unlock, Close,
	// and by the kernel when the process dies. It is not inherited in use: files are close-on-exec.
	Lock(exclusive bool) error
	// TryLock is Lock without waiting; false when another process has it.
	TryLock(exclusive bool) (bool, error)
	Unlock() error
	// Map maps the first size bytes, shared with all other mappings and with ReadAt/WriteAt.
	// The file must be at least that large, and must never shrink while it is mapped. A writable
	// mapping has a block behind every page, holes included: ENOSPC is an error here, since at a
	// store into the mapping it would be a SIGBUS. On a file system that copies on write there is no
	// such block: there the bytes of writable mappings lie in memory, where ReadAt and WriteAt do not
	// see them. They are zeros when no process had the file mapped so, and end with the last mapping.
	// While another process maps or unmaps the same file there, Map waits for it, for five seconds.
	Map(size int64, writable bool) (Mapping, error)
}

// Mapping is a shared memory mapping of a file.
type Mapping interface {
	Bytes() []byte
	// Close unmaps; Bytes must not be used afterwards.
	Close() error
}
