package fileregistry

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/registry/internal/local"
)

// The two ways to wake other processes that were considered, as a round trip between two
// waiters. inotify costs the waker a write and nobody a thread; a futex wakes sooner but holds a
// thread in every process for as long as it is idle, and the runtime has to take it back.

func BenchmarkWakeInotify(b *testing.B) {
	dir := b.TempDir()
	ping, err := local.NewBell(filepath.Join(dir, "ping"))
	if err != nil {
		b.Fatal(err)
	}
	pong, err := local.NewBell(filepath.Join(dir, "pong"))
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ping.Wait() == nil {
			pong.Ring()
		}
	}()
	for b.Loop() {
		ping.Ring()
		if err := pong.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	ping.Close()
	<-done
	pong.Close()
}

func futex(w *atomic.Uint32, op, val int) {
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), uintptr(op), uintptr(val), 0, 0, 0)
}

func BenchmarkWakeFutex(b *testing.B) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(page)
	ping := (*atomic.Uint32)(unsafe.Pointer(&page[0]))
	pong := (*atomic.Uint32)(unsafe.Pointer(&page[128]))
	const wait, wake, end = 0, 1, 1 << 31
	await := func(w *atomic.Uint32, last uint32) uint32 {
		for w.Load() == last {
			futex(w, wait, int(last))
		}
		return w.Load()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for last := uint32(0); last < end; {
			last = await(ping, last)
			pong.Add(1)
			futex(pong, wake, 1)
		}
	}()
	for last := uint32(0); b.Loop(); {
		ping.Add(1)
		futex(ping, wake, 1)
		last = await(pong, last)
	}
	ping.Store(end)
	futex(ping, wake, 1)
	<-done
}
