package sqlregistry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
)

// follow resolves links, also to a file that is not there yet.
func follow(path string) (string, error) {
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("sqlite registry: %s: too many links: %w", path, fault.Invalid)
}

// checkPrivate refuses a database that another user owns or can open, by its own mode or by that of its
// directory: a program that makes tables of its own may make the file, with the mode of its umask. SQLite gives
// the files beside it the same mode.
func checkPrivate(path string) error {
	if info, err := os.Stat(filepath.Dir(path)); err == nil && access.Check(path, info) == nil {
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = access.Check(path, info)
	}
	if err != nil {
		return fmt.Errorf("sqlite registry: %w; --allow-shared, or allow-shared=true in the URL, takes it as it is: %w", err, fault.Invalid)
	}
	return nil
}

// makePrivate makes an empty database with mode 0600, if there is none; SQLite gives the files beside it the
// same mode. A user who can read a database can also lock it, and so stop the registry. The file gets its
// name once it is closed: closing one that this process has locked would lose the lock.
func makePrivate(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // SQLite reports what else is wrong
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-new-") // 0600
	if err != nil {
		return fmt.Errorf("sqlite registry: make %s: %w: %w", path, fault.Unavailable, err)
	}
	err = f.Close()
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	switch {
	case errors.Is(err, fs.ErrExist): // another process was faster
		err = nil
	case errors.Is(err, unix.EPERM), errors.Is(err, errors.ErrUnsupported): // a file system without links, and so without modes
		err = nil
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return fmt.Errorf("sqlite registry: make %s: %w: %w", path, fault.Unavailable, err)
	}
	return nil
}
