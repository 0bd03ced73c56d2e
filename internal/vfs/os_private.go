//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
)

// allowIt ends a message about what AllowShared accepts.
const allowIt = "; --allow-shared, or allow-shared=true in the URL, takes it as it is"

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
	info, err := o.Stat(".")
	if err != nil {
		return err
	}
	refused := access.Check(o.dir, info)
	if refused == nil {
		return nil
	}
	list, err := o.ReadDir(".")
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() && empty(list) {
		log.Warn("the empty directory was open to other users, and is now for its owner alone", "dir", o.dir)
		return o.Chmod(".", 0o700)
	}
	return fmt.Errorf("data directory: %w; a directory that holds other things stays as it is: name one that is empty or not there yet%s: %w", refused, allowIt, fault.Invalid)
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
