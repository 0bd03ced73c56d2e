package filelog

import (
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
)

// lockPatience is how long the write lock may be in one hand before it is said in the log. It is
// held for microseconds: whoever has it longer is stopped, or hangs in the file system.
const lockPatience = time.Second

// lockWrite takes the write lock through f, one of the files that it can be taken through. Nobody
// can take it from a process that lives, so it waits; but not in silence.
func (s *store) lockWrite(f vfs.File) error {
	won, err := f.TryLock(true)
	if err == nil && !won {
		v := &vigil{s: s}
		v.begin()
		err = f.Lock(true)
		v.end()
	}
	if err == nil {
		s.page.word(pageHolder).Store(uint64(os.Getpid()))
	}
	return err
}

// vigil watches a holder of the write lock while somebody waits for it.
type vigil struct {
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
	return tenure{s.page.word(pageHolder).Load(), s.page.word(pageWritten).Load()}
}

func (v *vigil) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = v.s.tenure()
	v.timer = time.AfterFunc(lockPatience, v.look) // ended by end
}

// look warns when the holder has not changed, once for all that wait for it in this process.
func (v *vigil) look() {
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

// end is called once the lock was taken; the page is not looked at afterwards.
func (v *vigil) end() {
	v.mu.Lock()
	v.over = true
	v.timer.Stop()
	warned := v.warned
	v.mu.Unlock()
	if warned {
		v.s.stuck.Store(false)
		v.s.log.Info("the write lock was let go; appends go on")
	}
}
