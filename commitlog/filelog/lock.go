package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// lockPatience is how long one process may hold the write lock before a warning. The lock is held for
// microseconds: a longer holder is stopped, or hangs in the file system. Lock files are never unlinked: two
// processes would hold two locks of one name.
const lockPatience = time.Second

// lockPause is how soon a lock is asked for again: most are let go within microseconds. Once its
// holder has been waited for longer than lockPatience, longestLockPause is soon enough.
const (
	lockPause        = 50 * time.Microsecond
	busyLockPause    = time.Millisecond
	longestLockPause = 10 * time.Millisecond
)

// errNotLetGo says that another process holds a lock for too long.
var errNotLetGo = errors.New("another process, probably stopped, does not let go of the lock")

// lockWrite takes the write lock through f, one of the files that it can be taken through. A live holder keeps
// it, so lockWrite waits, with a warning.
func (s *store) lockWrite(f vfs.File, until <-chan struct{}) error {
	won, err := f.TryLock(true)
	if err == nil && !won {
		err = s.awaitWrite(f, until)
	}
	if err == nil {
		s.page.Hold(os.Getpid())
	}
	return err
}

// awaitWrite warns when the holder does not change for lockPatience, once for all that wait in this process.
func (s *store) awaitWrite(f vfs.File, until <-chan struct{}) error {
	type tenure struct{ pid, written uint64 } // tells one holder from the next
	holder := func() tenure { return tenure{s.page.Holder(), uint64(s.page.Written())} }
	seen, warned := holder(), false
	err := lockUntil(until, f, func() {
		now := holder()
		switch {
		case now == seen && s.stuck.CompareAndSwap(false, true):
			warned = true
			s.log.Warn("a process does not let go of the write lock, and appends wait for it; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
				"pid", now.pid, "for", lockPatience)
		case now != seen && warned: // that one went on; another holds it now
			warned = false
			s.stuck.Store(false)
		}
		seen = now
	})
	if warned {
		s.stuck.Store(false)
		if err == nil {
			s.log.Info("the write lock was let go; appends go on")
		}
	}
	return err
}

// lockWithin is lockUntil the end of ctx, and calls slow once.
func lockWithin(ctx context.Context, f vfs.File, slow func()) error {
	var once sync.Once
	err := lockUntil(ctx.Done(), f, func() { once.Do(slow) })
	if errors.Is(err, errNotLetGo) {
		return ctx.Err()
	}
	return err
}

// lockFor is lockUntil so much time has passed.
func lockFor(patience time.Duration, f vfs.File) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return lockUntil(ctx.Done(), f, func() {})
}

// lockUntil takes a lock, or is errNotLetGo when it does not get it until then. A kernel lock that was
// asked for can't be taken back, so it is asked for again and again. slow is called each time that
// lockPatience has passed.
func lockUntil(then <-chan struct{}, f vfs.File, slow func()) error {
	start, longest, patience := time.Now(), busyLockPause, lockPatience
	for pause := lockPause; ; pause = min(2*pause, longest) {
		if won, err := f.TryLock(true); won || err != nil {
			return err
		}
		if time.Since(start) > patience {
			longest, patience = longestLockPause, patience+lockPatience
			slow()
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-then:
			again.Stop()
			return errNotLetGo
		}
	}
}

// lock takes the kernel lock of the whole log.
func (l *fileLog) lock(ctx context.Context) (unlock func(), err error) {
	where := l.fs.Path(lockFile)
	f, err := l.fs.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain("lock "+where, err)
	}
	err = lockWithin(ctx, f, func() {
		l.c.Logger.Warn("a process does not let go of the lock for making and deleting topics; it is probably stopped: see which process has the file open, and continue it with kill -CONT, or end it with kill -9",
			"file", where, "for", lockPatience)
	})
	switch {
	case err == nil:
		return func() { _ = f.Close() }, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("the lock %s could not be had in time; the process that has the file open is probably stopped: continue or kill it: %w: %w", where, fault.NotDone, err)
	default:
		err = explain("lock "+where, err)
	}
	return nil, errors.Join(err, f.Close())
}

// tryLock is lock without waiting.
func (l *fileLog) tryLock() (unlock func(), won bool, err error) {
	f, err := l.fs.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if won, err = f.TryLock(true); !won || err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, true, nil
}
