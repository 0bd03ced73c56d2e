package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ringfence/ringfence/internal/fault"
)

// Dangling is the error (fault.Invalid) for a link to what is not there, such as a disk that is not mounted:
// nothing is made in its place. nil: dir is no such link.
func Dangling(dir string) error {
	target, err := os.Readlink(dir)
	if err != nil {
		return nil //nolint:nilerr // no link
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s is a link to %s, which is not there: make that directory or mount its disk, or name another directory: %w", dir, target, fault.Invalid)
}
