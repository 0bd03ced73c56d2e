package access

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// list is the attribute that holds the list of rights of a file.
const list = "system.posix_acl_access"

// listedAt tells whether the file at a path has a list of rights beside its mode. One of which that
// can't be found out counts as one that has.
func listedAt(path string) bool {
	_, err := unix.Getxattr(path, list, nil)
	return has(err)
}

// listedOpen is listedAt of an open file.
func listedOpen(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	var asked error
	err = raw.Control(func(fd uintptr) { _, asked = unix.Fgetxattr(int(fd), list, nil) })
	return err != nil || has(asked)
}

func has(err error) bool {
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)
}
