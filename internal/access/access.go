// Package access judges who besides its owner can read or change a file. Whatever is believed, obeyed
// or kept secret because of who can get at it is judged here, so that one look counts for all: by the
// mode, the owner, the list of rights that a file may have beside its mode, and who is in its group.
package access

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// File is what there is to know of a file.
type File struct {
	fs.FileInfo

	// listed tells whether the file has a list of rights (an ACL): the bits of its group are then the
	// most that any user or group on the list gets.
	listed func() bool
}

// Opened is an open file, as it is now.
func Opened(f *os.File) (File, error) {
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	return File{info, func() bool { return listedOpen(f) }}, nil
}

// Named is the file at a path, through links.
func Named(path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	return File{info, func() bool { return listedAt(path) }}, nil
}

// Rights of others than the owner.
const (
	ToWrite fs.FileMode = 0o022
	ToAny   fs.FileMode = 0o077
)

// Others are those of the rights that somebody else than the owner has; 0: none, also on a file system
// without users. A group that is the owner's alone, as many systems give everybody one, is nobody else,
// unless the file has a list of rights.
func (f File) Others(rights fs.FileMode) fs.FileMode {
	return f.others(rights, aloneHere)
}

func (f File) others(rights fs.FileMode, alone func(uid, gid uint32) bool) fs.FileMode {
	st, kernel := f.Sys().(*syscall.Stat_t)
	if !kernel {
		return 0
	}
	open := f.Mode().Perm() & rights
	if open&0o070 != 0 && !f.listed() && alone(st.Uid, st.Gid) {
		open &^= 0o070
	}
	return open
}

// Exposed says how a file with a secret can be read or changed by others than this user; "": by nobody.
// The rule is that of PostgreSQL for its keys: the file is this user's, or root's, whose file may be
// open to a group to be read. A list of rights is no group.
func (f File) Exposed() string {
	st, kernel := f.Sys().(*syscall.Stat_t)
	if !kernel {
		return ""
	}
	open := f.Mode().Perm() & ToAny
	if st.Uid == 0 && open&0o040 != 0 && !f.listed() {
		open &^= 0o040
	}
	if open == 0 && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) {
		return ""
	}
	return fmt.Sprintf("(mode %s, owner %d)", f.Octal(), st.Uid)
}

// Mend says what to do about an exposed file. No mode keeps a stranger out who owns it.
func (f File) Mend() string {
	if owner := Owner(f); owner > 0 && owner != os.Geteuid() {
		return "take a copy of your own, with mode 0600"
	}
	return "run chmod 600 on it as its owner"
}

// Octal is the mode as chmod takes it, with the sign of ls for a list of rights.
func (f File) Octal() string {
	if f.Mode().Perm()&0o070 != 0 && f.listed() {
		return Octal(f) + "+"
	}
	return Octal(f)
}

// Octal is the mode as chmod takes it.
func Octal(info fs.FileInfo) string { return fmt.Sprintf("%04o", info.Mode().Perm()) }

// Owner is the uid of a file; -1 where there are no users.
func Owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// Stranger names the owner when it is another user than this process's; "" otherwise.
func Stranger(info fs.FileInfo) string {
	if uid := Owner(info); uid >= 0 && uid != os.Geteuid() {
		return UserName(uid)
	}
	return ""
}

// Above names the owner when it is another user than this process's and root: "" otherwise. In a user
// namespace the owner of what it does not know counts as root.
func Above(info fs.FileInfo) string {
	if Owner(info) == 0 || unmapped(info) {
		return ""
	}
	return Stranger(info)
}

// UserName is a user as messages show it.
func UserName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (uid " + id + ")"
	}
	return "uid " + id
}

// unmapped tells the owner that a user namespace shows for whom it does not know, such as the root of
// the system around it.
func unmapped(info fs.FileInfo) bool {
	uids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(uids)), " ") == "0 0 4294967295" {
		return false
	}
	nobody, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	return err == nil && strings.TrimSpace(string(nobody)) == strconv.Itoa(Owner(info))
}
