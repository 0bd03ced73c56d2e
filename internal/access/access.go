// Package access has the one check of owner and mode, as ssh makes it of its keys. It applies to a data
// directory, a database file and a file with a secret.
package access

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Check fails unless the file at path belongs to this user or to root, and is closed to all others. A file
// of root may be open to a group for reading, as container platforms hand out secrets. The error has no
// kind. A file system without users passes.
func Check(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d; this process runs as uid %d): run as that user, or use a copy of your own",
			path, st.Uid, os.Geteuid())
	}
	open := info.Mode().Perm() & 0o077
	if st.Uid == 0 {
		open &^= 0o050
	}
	if open != 0 {
		return fmt.Errorf("other users can read %s (mode %04o): run chmod go= on it as its owner", path, info.Mode().Perm())
	}
	return nil
}
