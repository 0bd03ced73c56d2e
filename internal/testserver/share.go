package testserver

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Share gives nobody (uid 65534) all rights to a file of ours by a list of rights (ACL); its mode shows
// them as those of its group. Where a file system has no such lists the test is skipped, or fails where
// RINGFENCE_REQUIRE has the name acl.
func Share(t testing.TB, path string) { t.Helper(); share(t, path, "system.posix_acl_access") }

// ShareNew is Share of what is made in a folder from now on; the folder itself stays as it is.
func ShareNew(t testing.TB, path string) { t.Helper(); share(t, path, "system.posix_acl_default") }

func share(t testing.TB, path, name string) {
	t.Helper()
	const none = 0xffffffff
	list := binary.LittleEndian.AppendUint32(nil, 2) // the version; then who, what, which user
	for _, e := range [][3]uint32{{1, 7, none}, {2, 7, 65534}, {4, 0, none}, {16, 7, none}, {32, 0, none}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(e[1]))
		list = binary.LittleEndian.AppendUint32(list, e[2])
	}
	err := unix.Setxattr(path, name, list, 0)
	if errors.Is(err, unix.ENOTSUP) {
		missing(t, "acl", "the file system of "+path+" has no lists of rights")
	}
	if err != nil {
		t.Fatal(err)
	}
}
