// Package freeze stops processes as SIGSTOP does, for tests and measurements of what others do then.
package freeze

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// patience is for a machine with much to do, and for threads that wait for a disk.
const patience = 10 * time.Second

// tries is how often a process is stopped that then has a lock in its hand.
const tries = 20

// Process stops a process, and returns when every thread of it has stopped. The signal comes to one of them; the
// others may go on for a while, take a lock, and stop with it in their hand. All others of a directory would wait for
// that, so the process is continued and stopped once more.
func Process(ctx context.Context, p *os.Process) error {
	for try := 1; ; try++ {
		err := stop(ctx, p)
		if err != nil || try == tries || !locks(p.Pid) {
			return err
		}
		if err := p.Signal(unix.SIGCONT); err != nil {
			return fmt.Errorf("continue process %d: %w", p.Pid, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// locks says whether a process has locked a file for itself alone, by flock. What is not Linux tells nothing, and
// counts as free.
func locks(pid int) bool {
	list, _ := os.ReadFile("/proc/locks")
	return bytes.Contains(list, fmt.Appendf(nil, " FLOCK  ADVISORY  WRITE %d ", pid))
}

func stop(ctx context.Context, p *os.Process) error {
	if err := p.Signal(unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", p.Pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !stopped(p.Pid) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("stop process %d: some of its threads go on: %w", p.Pid, ctx.Err())
		}
	}
	return nil
}

// stopped says whether no thread of a process runs. What is not Linux tells nothing, and counts as stopped.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, stat := range threads {
		b, err := os.ReadFile(stat) // pid (name) state …
		if state := b[bytes.LastIndexByte(b, ')')+1:]; err == nil && !bytes.HasPrefix(state, []byte(" T")) {
			return false
		}
	}
	return true
}
