//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/fault"
)

// OS is the real file system below one directory. Names can't leave it, not even by a symbolic link.
type OS struct {
	*os.Root // open files stay open when it is closed

	dir   string // absolute
	boot  string
	pages pages
}

var _ Dir = (*OS)(nil)

// OpenOS opens a directory that exists.
func OpenOS(dir string) (*OS, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	return &OS{Root: root, dir: abs, boot: boot, pages: pages{dir: memoryDir}}, nil
}

// CreateOS is OpenOS of a directory that is made, with its parents, when it is missing. The
// directory is durable when CreateOS returns.
func CreateOS(dir string, perm fs.FileMode) (*OS, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, perm); err != nil {
		if led := dangling(abs); led != nil {
			return nil, led
		}
		return nil, err
	}
	parents, err := undurable(abs)
	if err != nil {
		return nil, err
	}
	for _, d := range parents {
		if err := syncPath(d); err != nil && !cantSync(err) { // that of another user is durable already
			return nil, fmt.Errorf("make directory %s durable: %w", abs, err)
		}
	}
	return OpenOS(abs)
}

// dangling is the error (fault.Invalid) for a link to what is not there, such as a disk that is not mounted:
// nothing is made in its place. nil: dir is no such link.
func dangling(dir string) error {
	target, err := os.Readlink(dir)
	if err != nil {
		return nil //nolint:nilerr // no link
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s is a link to %s, which is not there: make that directory or mount its disk, or name another directory: %w", dir, target, fault.Invalid)
}

// undurable are the directories to sync so that abs is durable, the lowest first. A directory with
// something in it needs none, because nothing is put into it before it is durable. One that is empty
// may be left of a process that was killed between making it, and its parents, and the sync.
func undurable(abs string) ([]string, error) {
	d, err := os.Open(abs)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(1)
	if err = errors.Join(ignore(err, io.EOF), d.Close()); err != nil || len(names) > 0 {
		return nil, err
	}
	var parents []string
	for d := abs; d != filepath.Dir(d); d = filepath.Dir(d) {
		parents = append(parents, filepath.Dir(d))
	}
	return parents, nil
}

// cantSync says that this user can't sync a directory, or its file system can't.
func cantSync(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenFile opens a file below the root.
func (o *OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := o.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return newOSFile(f, name, o.pages)
}

// OpenDir opens a directory: it stays the same one whatever becomes of its name.
func (o *OS) OpenDir(name string) (Dir, error) {
	root, err := o.Root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &OS{Root: root, dir: o.Path(name), boot: o.boot, pages: o.pages}, nil
}

// MkdirAll makes a directory and its missing parents.
func (o *OS) MkdirAll(name string, perm fs.FileMode) error {
	if name == "." {
		return nil
	}
	return o.Root.MkdirAll(name, perm)
}

// ReadDir lists a directory, sorted by name.
func (o *OS) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(o.FS(), name)
}

// Away is why the path of name does not lead to what it was, as a later process finds it: the root, or a directory
// above it, was moved away or replaced. nil: it does, or that can't be found out. A Mem is in one place for ever.
func Away(fsys FS, name string, was fs.FileInfo) error {
	stat := fsys.Stat
	if o, ok := fsys.(*OS); ok {
		stat = func(name string) (fs.FileInfo, error) { return os.Stat(o.Path(name)) }
	}
	now, err := stat(name)
	switch {
	case err == nil && !SameFile(was, now):
		return errors.New("it is another one now")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP): // a file in the way, or links in a circle
		return err
	}
	return nil
}

// SyncDir makes the entries of a directory durable.
func (o *OS) SyncDir(name string) error {
	d, err := o.Root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Kind tells what name lies on.
func (o *OS) Kind(name string) (Kind, error) {
	d, err := o.Root.Open(name)
	if err != nil {
		return Kind{}, err
	}
	defer d.Close()
	var st unix.Statfs_t
	if err := ignoreEINTR(func() error { return unix.Fstatfs(int(d.Fd()), &st) }); err != nil {
		return Kind{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return kindOf(&st), nil
}

// Path is the absolute path of name; below a directory that was moved, the one it had when it was
// opened.
func (o *OS) Path(name string) string { return filepath.Join(o.dir, filepath.FromSlash(name)) }

// BootID is the kernel's id of this boot.
func (o *OS) BootID() string { return o.boot }

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the kernel's boot id (is /proc mounted?): %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func ignoreEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
