package fileregistry

import (
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// lockPatience is how long a writer waits for the kernel lock before it says so. It is held for
// microseconds, so whoever has it longer is stopped or hangs in the file system.
const lockPatience = 5 * time.Second

// locker takes the kernel lock that orders the writers of all processes. One goroutine uses it.
type locker struct {
	f    vfs.File
	ctl  *control
	pid  int
	quit <-chan struct{}
	// patience is lockPatience, but in tests.
	patience time.Duration
	// waiting is a Lock under way in the kernel, which can't be called off: it is taken up by the
	// next acquire. It outlives Close only while another process sits on the lock.
	waiting chan error
}

func (l *locker) acquire() error {
	if l.waiting == nil {
		ok, err := l.f.TryLock(true)
		if err != nil {
			return fmt.Errorf("registry lock: %w: %w", err, fault.Unavailable)
		}
		if ok {
			l.ctl.holder.Store(uint64(l.pid))
			return nil
		}
		wait := make(chan error, 1)
		l.waiting = wait
		go func() { wait <- l.f.Lock(true) }() // joined by the receive below, see waiting
	}
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	select {
	case err := <-l.waiting:
		l.waiting = nil
		if err != nil {
			return fmt.Errorf("registry lock: %w: %w", err, fault.Unavailable)
		}
		l.ctl.holder.Store(uint64(l.pid))
		return nil
	case <-l.quit:
		return fmt.Errorf("file registry: %w", fault.Closed)
	case <-patience.C:
		return fmt.Errorf("process %d has held the registry's lock for more than %s; it is probably stopped: continue or kill it: %w",
			l.ctl.holder.Load(), l.patience, fault.Unavailable)
	}
}

func (l *locker) release() error { return l.f.Unlock() }
