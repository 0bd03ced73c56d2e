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

// follow is the file that a path stands for, through links, also when it is not there yet.
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

// checkPrivate refuses a database that another user owns or can open. SQLite gives the files beside it the
// same mode.
func checkPrivate(path string) error {
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

// makePrivate makes an empty database that only this user can read and write, unless the file is
// there; SQLite gives what it makes beside it the same mode. Whoever can read it can lock it too,
// and so stop everybody. The file gets its name when it is closed: the close of one that this
// process has a lock on would give up the lock.
func makePrivate(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // SQLite finds out what else is wrong
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
	case errors.Is(err, fs.ErrExist): // somebody else was faster
		err = nil
	case errors.Is(err, unix.EPERM), errors.Is(err, errors.ErrUnsupported): // no links, and so no modes, on this file system
		err = nil
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return fmt.Errorf("sqlite registry: make %s: %w: %w", path, fault.Unavailable, err)
	}
	return nil
}
