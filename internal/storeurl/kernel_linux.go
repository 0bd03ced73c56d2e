package storeurl

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// madeUp tells a file that lies on no disk and in no memory: the kernel makes up what is in it when it is read.
// Some of them, such as /proc/kmsg, have it wait for more for ever, and take what they tell from others.
func madeUp(f *os.File) bool {
	var st unix.Statfs_t
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Fstatfs(int(fd), &st) }); e != nil || err != nil {
		return false
	}
	return slices.Contains([]uint32{
		unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	}, uint32(st.Type))
}
