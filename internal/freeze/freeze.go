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

// Process stops a process, and returns when every thread of it has stopped. The signal comes to one
// of them; the others may go on for a while, take a lock, and stop with it in their hand.
func Process(ctx context.Context, p *os.Process) error {
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
