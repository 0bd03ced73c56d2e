package page

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The futex calls go without FUTEX_PRIVATE_FLAG: the word is shared between processes.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps until addr is woken, for at most d, unless it does not hold old any more.
func futexWait(addr *byte, old uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	// Whatever ends the wait, a wake-up, a signal or the time, the caller looks again.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexOpWait, uintptr(old), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

func futexWake(addr *byte) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexOpWake, math.MaxInt32, 0, 0, 0)
}
