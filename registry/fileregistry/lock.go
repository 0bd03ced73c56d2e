package fileregistry

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// The kernel lock is held for microseconds: whoever has it longer is stopped, or hangs in the file
// system. A writer that waits says so in the log after lockNotice, once, and fails after lockPatience.
const (
	lockNotice   = time.Second
	lockPatience = 5 * time.Second
)

// locker takes the kernel lock that orders the writers of all processes. One goroutine uses it.
type locker struct {
	f    vfs.File
	ctl  *control
	pid  int
	log  *slog.Logger
	quit <-chan struct{}
	said bool // the log was told of this incident
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
	patience, notice := time.NewTimer(l.patience), time.NewTimer(min(lockNotice, l.patience/2))
	defer patience.Stop()
	defer notice.Stop()
	for {
		select {
		case err := <-l.waiting:
			return l.got(err)
		case <-l.quit:
			return fmt.Errorf("file registry: %w", fault.Closed)
		case <-notice.C:
			l.notice()
		case <-patience.C:
			return fmt.Errorf("process %d has held the registry's lock for more than %s; it is probably stopped: continue or kill it: %w",
				l.ctl.holder.Load(), l.patience, fault.Unavailable)
		}
	}
}

// got ends the wait.
func (l *locker) got(err error) error {
	l.waiting = nil
	if err != nil {
		return fmt.Errorf("registry lock: %w: %w", err, fault.Unavailable)
	}
	l.ctl.holder.Store(uint64(l.pid))
	if l.said {
		l.said = false
		l.log.Info("the registry's lock was let go; transactions go on")
	}
	return nil
}

func (l *locker) notice() {
	if l.said {
		return
	}
	l.said = true
	l.log.Warn("a process does not let go of the registry's lock, and transactions wait for it; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
		"pid", l.ctl.holder.Load())
}

func (l *locker) release() error { return l.f.Unlock() }
