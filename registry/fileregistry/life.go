package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Whether the words of the control file count depends on which processes live, not on the boot. A file system
// that was mounted again after an error, or an attached snapshot of a disk, shows an older page within one
// boot.
//
// Each process with the registry open holds a shared lock on `alive`. The opener tries that lock exclusively.
// If it gets it, no process lives: the page is a hint, and the content is recovered from the journal. If it is
// refused, the page is true: a living process has it mapped, through an open file, on a file system that can't
// be unmounted meanwhile. The kernel releases a lock after the last store of its process.
//
// The change from exclusive to shared is not one step: the kernel releases the one lock before it gives the
// other. So all this happens under a second lock, `open`, held exclusively while a process opens: only its
// holder locks `alive`, and the change can't be seen. Living processes take no part, so the one that made
// `alive` busy may die before the shared lock is there. The page is then still as it was, since this process
// has the file open all along.
//
// Both are asked for without waiting in the kernel, so that Open ends with its context.
const (
	openLock  = "open.lock"
	aliveLock = "alive.lock"
)

// comeAlive loads the content, and is alive for others from then on.
func (s *store) comeAlive(ctx context.Context) error {
	gate, err := s.dir.OpenFile(openLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := s.await(ctx, gate); err != nil {
		return errors.Join(err, gate.Close())
	}
	sign(gate, os.Getpid())
	err = s.join()
	sign(gate, 0)
	return errors.Join(err, gate.Close())
}

// join runs under the lock of the opener.
func (s *store) join() error {
	if err := s.checkFormat(); err != nil {
		return err
	}
	var err error
	if s.alive, err = s.dir.OpenFile(aliveLock, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	alone, err := s.alive.TryLock(true)
	if err != nil {
		return fmt.Errorf("lock %s: %w", s.dir.Path(aliveLock), err)
	}
	if err := s.openControl(); err != nil {
		return fmt.Errorf("file registry: control file: %w", explain(err))
	}
	s.j = &journal{fs: s.dir, data: s.fs, ctl: s.ctl, space: s.space}
	if err := s.load(alone); err != nil {
		return explain(err)
	}
	if ok, err := s.alive.TryLock(false); err != nil || !ok {
		return fmt.Errorf("lock %s: %w: another process locks it, which no process of Ringfence does now: %w", s.dir.Path(aliveLock), err, fault.Unavailable)
	}
	return nil
}

func (s *store) load(alone bool) error {
	if err := s.j.openFiles(); err != nil {
		return err
	}
	if alone {
		return s.j.recover()
	}
	if s.ctl.magic.Load() != controlMagic || s.j.file(s.ctl.gen.Load()) == nil {
		return fmt.Errorf("%s is not that of the processes that have the registry open: it was removed or replaced; stop them all, then start again: %w",
			s.dir.Path(controlName), fault.Unavailable)
	}
	var ch change
	return s.j.refresh(&ch)
}

// await asks for the lock of the opener until it has it or ctx ends.
func (s *store) await(ctx context.Context, gate vfs.File) error {
	start := time.Now()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for said := false; ; {
		ok, err := gate.TryLock(true)
		if err != nil {
			return fmt.Errorf("lock %s: %w", s.dir.Path(openLock), err)
		}
		if ok {
			return nil
		}
		if !said && time.Since(start) > lockNotice {
			said = true
			s.log.Warn("another process is opening the registry and does not get done; it is probably stopped: continue it with kill -CONT, or end it with kill -9", "pid", signer(gate))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			who := "another process"
			if pid := signer(gate); pid != 0 {
				who = fmt.Sprintf("process %d", pid)
			}
			return fmt.Errorf("%s is opening the registry and did not get done within %s; if it is stopped, continue or kill it: %w",
				who, time.Since(start).Round(time.Millisecond), ctx.Err())
		}
	}
}

const signature = 20 // bytes: a PID, then spaces

// sign names the holder of a lock for messages. When it can't, they name process 0.
func sign(f vfs.File, pid int) { _, _ = f.WriteAt(fmt.Appendf(nil, "%-*d\n", signature-1, pid), 0) }

func signer(f vfs.File) int {
	b := make([]byte, signature)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}

// directory is where the registry was when this process opened it. Its open files stay those of that directory;
// it looks whether other processes can still find them.
type directory struct {
	fs   vfs.FS // in which the directory has its name
	info fs.FileInfo
	lost error         // not nil: it is gone
	last time.Time     // of the last look
	told chan struct{} // closed when it is gone
}

// lookEvery is how often a busy process looks.
const lookEvery = 5 * time.Millisecond

// look says whether the directory is still there, by the control file in it.
func (d *directory) look(now time.Time) error {
	if d.lost != nil || now.Sub(d.last) < lookEvery {
		return d.lost
	}
	d.last = now
	name := dirName + "/" + controlName
	err := vfs.Away(d.fs, name, d.info)
	if err == nil {
		return nil
	}
	d.lost = fmt.Errorf("the registry in %s was removed or replaced while this process had it open (%s: %w); nothing was written to what is there now; close this registry and open it again, or restart the process: %w",
		d.fs.Path(dirName), d.fs.Path(name), err, fault.Closed)
	close(d.told)
	return d.lost
}
