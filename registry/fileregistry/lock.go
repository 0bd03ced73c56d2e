package fileregistry

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// The write lock orders the writers of all processes. It is the kernel's, on the control file, and
// is held for microseconds: a longer holder is stopped, or hangs in the file system.
//
// A process asks for it again and again and never waits in the kernel (docs/design/file-registry.md), since a wait
// there can't be called off: it would get a lock that is not wanted any more, and keep it. So a
// process is in one of three states, and only try, giveUp and release move it:
//
//	idle   --try-->  wanted | held      wanted --giveUp--> idle
//	wanted --try-->  wanted | held      held   --release-> idle
//
// It is held across reading the journal's tail and one pwrite, or the start of a generation, by the core only, and
// never across the sync of a commit. The journal files are locked shared across each fdatasync of the syncer, and
// exclusively for a look. While opening, open.lock comes before alive.lock, and is held across recovery.
//
// The word holder names the process with the lock: stored after it was got, cleared before it is given
// back. Between the two it may name a holder that was killed, never one that lives.
const (
	lockNotice   = time.Second     // a writer that waits says so in the log, once
	lockPatience = 5 * time.Second // and a transaction fails after this
	lockEvery    = time.Millisecond
	lockTries    = 50 // at once, which takes about as many microseconds
)

type phase int

const (
	idle phase = iota
	wanted
	held
)

// flock is what locker needs of the control file.
type flock interface {
	TryLock(exclusive bool) (bool, error)
	Unlock() error
}

// locker is this process's side of the write lock. One goroutine uses it.
type locker struct {
	f      flock
	holder word
	pid    int
	log    *slog.Logger
	phase  phase
	since  time.Time // of being wanted
	said   bool      // the log was told of this incident
	// patience is lockPatience, but in tests.
	patience time.Duration
}

// try asks for the lock, and says whether it is held now.
func (l *locker) try(now time.Time) (bool, error) {
	if l.phase == held {
		return true, nil
	}
	ok, err := l.f.TryLock(true)
	switch {
	case err != nil:
		l.phase = idle
		return false, fmt.Errorf("registry lock: %w: %w", err, fault.Unavailable)
	case !ok:
		if l.phase == idle {
			l.phase, l.since = wanted, now
		}
		l.notice(now)
		return false, nil
	}
	l.holder.Store(uint64(l.pid))
	l.phase = held
	if l.said {
		l.said = false
		l.log.Info("the registry's lock was let go; transactions go on")
	}
	return true, nil
}

// giveUp ends the wish for the lock.
func (l *locker) giveUp() {
	if l.phase == wanted {
		l.phase = idle
	}
}

func (l *locker) release() {
	if l.phase == held {
		l.holder.Store(0)
		_ = l.f.Unlock() // of a lock that it has, which the kernel does not refuse
		l.phase = idle
	}
}

func (l *locker) notice(now time.Time) {
	if l.said || now.Sub(l.since) < min(lockNotice, l.patience/2) {
		return
	}
	l.said = true
	l.log.Warn("a process does not let go of the registry's lock, and transactions wait for it; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
		"pid", l.holder.Load())
}

// blame is the error of a transaction that has waited too long.
func (l *locker) blame() error {
	who := "no process says that it holds it now"
	if pid := l.holder.Load(); pid != 0 {
		who = fmt.Sprintf("process %d holds it now", pid)
	}
	return fmt.Errorf("the registry's lock could not be had for %s; %s; a process that has it that long is probably stopped: continue or kill it: %w",
		l.patience, who, fault.Unavailable)
}
