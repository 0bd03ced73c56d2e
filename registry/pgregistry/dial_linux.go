package pgregistry

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unackedTimeout bounds how long sent bytes may go without an acknowledgement: the kernel's own
// patience is a quarter of an hour.
func unackedTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	outer := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedMax/time.Millisecond))
	})
	if outer != nil {
		return outer
	}
	return err
}
