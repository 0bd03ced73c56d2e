//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
)

// allowIt ends a message about what AllowShared accepts.
const allowIt = "; --allow-shared, or allow-shared=true in the URL, takes it as it is"

// CreateData opens the data directory for a log or a registry, and makes it when it is missing: CreatePrivate, or
// with allowShared CreateOS. It refuses (fault.Invalid) what is no data directory.
func CreateData(dir string, allowShared bool, log *slog.Logger) (o *OS, err error) {
	if allowShared {
		o, err = CreateOS(dir, 0o700)
	} else {
		o, err = CreatePrivate(dir, log)
	}
	if err != nil {
		return nil, err
	}
	if err := o.checkOurs(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// CreatePrivate is CreateOS of a data directory for this user alone. It refuses (fault.Invalid) a directory
// that access.Check refuses. An empty directory of this user is closed to others instead, which is logged.
func CreatePrivate(dir string, log *slog.Logger) (*OS, error) {
	o, err := CreateOS(dir, 0o700)
	if err != nil {
		return nil, err
	}
	if err := o.private(log); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *OS) private(log *slog.Logger) error {
	list, err := o.ReadDir(".") // before its mode: another process of ours, which opens it too, closes it before it makes anything
	if err != nil {
		return err
	}
	info, err := o.Stat(".")
	if err != nil {
		return err
	}
	refused := access.Check(o.dir, info)
	if refused == nil {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() && empty(list) {
		log.Warn("the empty directory was open to other users, and is now for its owner alone", "dir", o.dir)
		return o.Chmod(".", 0o700)
	}
	return fmt.Errorf("data directory: %w; a directory that holds other things stays as it is: name one that is empty or not there yet%s: %w", refused, allowIt, fault.Invalid)
}

// RestoringDir is a directory in a data directory while a backup is restored into it.
const RestoringDir = "restoring"

// checkOurs refuses (fault.Invalid) a directory with files in it and neither a log nor a registry, since it serves
// another purpose, and one into which a backup is being restored. Database files may be there first: a registry of
// SQLite, or what the program itself keeps.
func (o *OS) checkOurs() error {
	list, err := o.ReadDir(".")
	if err != nil {
		return err
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(list, func(e fs.DirEntry) bool { return slices.Contains(names, e.Name()) })
	}
	switch {
	case has(RestoringDir):
		return fmt.Errorf("a backup is being restored into %s, or that was interrupted; in the latter case remove what is in the directory and restore again: %w", o.dir, fault.Invalid)
	case empty(list) || has("log", "registry"):
		return nil
	}
	for _, e := range list {
		if !isDatabase(e) {
			return fmt.Errorf("%s is no data directory of Ringfence: it has %q, and neither log nor registry; name a directory that is empty or not there yet: %w", o.dir, e.Name(), fault.Invalid)
		}
	}
	return nil
}

// isDatabase tells whether a file is NAME.db, or is named as those beside it: NAME.db-wal.
func isDatabase(e fs.DirEntry) bool {
	i := strings.LastIndex(e.Name(), ".db")
	return i > 0 && e.Type().IsRegular() && (i+len(".db") == len(e.Name()) || e.Name()[i+len(".db")] == '-')
}

// empty tells whether a directory has nothing in it, except what a new file system has.
func empty(list []fs.DirEntry) bool {
	return len(list) == 0 || len(list) == 1 && list[0].Name() == "lost+found"
}

// CheckUnlinked fails (fault.Invalid) when a file in the directory has another name besides. A copy by hard
// links shares its files with a directory that grows on by marks of its own: each damages the other.
func CheckUnlinked(fsys FS, dir string) error {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && st.Nlink > 1 {
			return fmt.Errorf("%s has %d names, so it is a part of another directory, too (cp -al, rsync --link-dest?), and work in one damages the other: copy this one and use the copy (cp -a), or remove the other%s: %w",
				filepath.Join(fsys.Path(dir), e.Name()), st.Nlink, allowIt, fault.Invalid)
		}
	}
	return nil
}
