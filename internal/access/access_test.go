package access

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// file has an owner and a mode; sys nil: a file system without users.
type file struct {
	fs.FileInfo

	mode fs.FileMode
	sys  any
}

func (f file) Mode() fs.FileMode { return f.mode }
func (f file) Sys() any          { return f.sys }

func TestCheckOwnerAndMode(t *testing.T) {
	t.Parallel()
	me, other := uint32(os.Geteuid()), uint32(os.Geteuid()+1)
	owned := func(uid uint32, mode fs.FileMode) fs.FileInfo {
		return file{mode: mode, sys: &syscall.Stat_t{Uid: uid}}
	}
	for _, c := range []struct {
		name string
		file fs.FileInfo
		says string // "": accepted
	}{
		{"ours", owned(me, 0o600), ""},
		{"our directory", owned(me, 0o700|fs.ModeDir), ""},
		{"open to all", owned(me, 0o604), "mode 0604"},
		{"all can write", owned(me, 0o602), "mode 0602"},
		{"the group can write", owned(me, 0o620), "mode 0620"},
		{"of root for a group", owned(0, 0o440), ""},
		{"of root, the group can write", owned(0, 0o660), "mode 0660"},
		{"of another user", owned(other, 0o600), "another user"},
		{"without users", file{mode: 0o777}, ""},
	} {
		err := Check("/p", c.file)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "/p")) {
			t.Errorf("%s: %v; expected %q", c.name, err, c.says)
		}
	}
}
