package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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
		v := &holderWatch{s: s}
		v.begin()
		err = lockUntil(until, f, func() {})
		v.end(err == nil)
	}
	if err == nil {
		s.page.Hold(os.Getpid())
	}
	return err
}

// lockWithin is lockUntil the end of ctx.
func lockWithin(ctx context.Context, f vfs.File, slow func()) error {
	err := lockUntil(ctx.Done(), f, slow)
	if errors.Is(err, errNotLetGo) {
		return ctx.Err()
	}
	return err
}

// lockUntil takes a lock, or is errNotLetGo when it does not get it until then. A kernel lock that was
// asked for can't be taken back, so it is asked for again and again. slow is called once, when
// a holder does not release it.
func lockUntil(then <-chan struct{}, f vfs.File, slow func()) error {
	start, longest := time.Now(), busyLockPause
	for pause := lockPause; ; pause = min(2*pause, longest) {
		if won, err := f.TryLock(true); won || err != nil {
			return err
		}
		if longest == busyLockPause && time.Since(start) > lockPatience {
			longest = longestLockPause
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
		l.c.Logger.Warn("a process does not let go of the lock for making and deleting topics; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
			"pid", signature(f), "file", where, "for", lockPatience)
	})
	switch {
	case err == nil:
		return signed(f), nil
	case ctx.Err() != nil:
		who := "no process says that it has it now"
		if pid := signature(f); pid != 0 {
			who = fmt.Sprintf("process %d has it now", pid)
		}
		err = fmt.Errorf("the lock %s could not be had in time; %s; a process that has it that long is probably stopped: continue or kill it: %w: %w", where, who, fault.NotDone, err)
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
	return signed(f), true, nil
}

// signed writes the PID of the holder into the lock file of the log, for the messages of waiters, until it is
// unlocked. On a full disk there is none.
func signed(f vfs.File) (unlock func()) {
	if _, err := f.WriteAt(fmt.Appendf(nil, "%-*d\n", signatureBytes-1, os.Getpid()), 0); err != nil {
		_ = f.Truncate(0)
	}
	return func() {
		_ = f.Truncate(0)
		_ = f.Close()
	}
}

// signatureBytes are the bytes of a PID in a lock file, so that a shorter one covers a longer one of a
// process that was killed.
const signatureBytes = 20

// signature is the PID of the holder of the log's lock; 0: none stands there. For a moment after it was
// taken it may be that of a holder that was killed.
func signature(f vfs.File) int {
	b := make([]byte, signatureBytes)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}

// holderWatch watches the holder of the write lock while a goroutine waits for it.
type holderWatch struct {
	s *store

	mu     sync.Mutex
	timer  *time.Timer // runs look: a timer costs appends that have to wait next to nothing
	over   bool
	warned bool
	seen   tenure
}

// tenure tells one time that the lock is held from another, as far as the page can tell.
type tenure struct{ pid, written uint64 }

func (s *store) tenure() tenure {
	return tenure{s.page.Holder(), uint64(s.page.Written())}
}

func (v *holderWatch) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = v.s.tenure()
	v.timer = time.AfterFunc(lockPatience, v.look) // ended by end
}

// look warns when the holder has not changed, once for all that wait for it in this process.
func (v *holderWatch) look() {
	v.mu.Lock()
	if v.over {
		v.mu.Unlock()
		return
	}
	now := v.s.tenure()
	warn := false
	if now == v.seen {
		warn = v.s.stuck.CompareAndSwap(false, true)
		v.warned = v.warned || warn
	} else {
		if v.warned { // that one went on; another holds it now
			v.warned = false
			v.s.stuck.Store(false)
		}
		v.seen = now
	}
	v.timer.Reset(lockPatience)
	v.mu.Unlock()
	if warn {
		v.s.log.Warn("a process does not let go of the write lock, and appends wait for it; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
			"pid", now.pid, "for", lockPatience)
	}
}

// end is called once the lock was taken, or given up; the page is not looked at afterwards.
func (v *holderWatch) end(taken bool) {
	v.mu.Lock()
	v.over = true
	v.timer.Stop()
	warned := v.warned
	v.mu.Unlock()
	if warned {
		v.s.stuck.Store(false)
	}
	if warned && taken {
		v.s.log.Info("the write lock was let go; appends go on")
	}
}
