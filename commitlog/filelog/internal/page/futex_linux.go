package page

import (
	"math"
	"sync/atomic"
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

// waitWord is one of the words that futexWaitAny sleeps on, as the kernel takes it.
type waitWord struct {
	value, addr uint64
	flags, _    uint32
}

const (
	mostWords    = 128  // FUTEX_WAITV_MAX
	futexU32     = 0x02 // FUTEX2_SIZE_U32
	futexPrivate = 0x80 // FUTEX_PRIVATE_FLAG, FUTEX2_PRIVATE
)

func (p *Page) bellWord(old uint32) waitWord {
	return waitWord{value: uint64(old), addr: uint64(uintptr(unsafe.Pointer(&p.b[wordBell]))), flags: futexU32}
}

// ownWord is a word of this process, which stays where it is until the caller is done.
func ownWord(w *atomic.Uint32) waitWord {
	return waitWord{value: uint64(w.Load()), addr: uint64(uintptr(unsafe.Pointer(w))), flags: futexU32 | futexPrivate}
}

func futexWakeOwn(w *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexOpWake|futexPrivate, math.MaxInt32, 0, 0, 0)
}

// futexWaitAny sleeps until one of the words is woken or differs, for at most d. False: the kernel has no such
// call (before 5.16), or does not let us.
func futexWaitAny(words []waitWord, d time.Duration) bool {
	var until unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &until); err != nil {
		return false
	}
	until = unix.NsecToTimespec(until.Nano() + int64(d))
	_, _, err := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(unsafe.SliceData(words))), uintptr(len(words)), 0,
		uintptr(unsafe.Pointer(&until)), unix.CLOCK_MONOTONIC, 0)
	switch err {
	case 0, unix.EAGAIN, unix.ETIMEDOUT, unix.EINTR:
		return true
	}
	return false
}
