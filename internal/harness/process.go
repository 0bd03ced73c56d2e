package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/ringfence/ringfence/internal/freeze"
)

// Process is a child process that can be hurt. It dies with its parent, and gets no signal of a
// terminal: the starter decides when it ends.
type Process struct {
	Name string

	cmd    *exec.Cmd
	output bytes.Buffer // what it printed; to be read when it has ended
	killed atomic.Bool
	asked  atomic.Bool // to leave
	done   chan struct{}
	err    error // valid when done is closed
}

// Start runs a command with variables added to the environment of this process.
func Start(name, binary string, args, env []string) (*Process, error) {
	p := newProcess(name, binary, args, env)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

func newProcess(name, binary string, args, env []string) *Process {
	p := &Process{Name: name, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return p
}

func (p *Process) start() error {
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start process %s: %w", p.Name, err)
	}
	go func() { // joined by Wait
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// PID is its process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill is kill -9.
func (p *Process) Kill() error {
	p.killed.Store(true)
	return p.cmd.Process.Kill()
}

// Leave asks it to end: SIGTERM, once. A second one would tell it to leave without a clean end.
func (p *Process) Leave() error {
	if p.asked.Swap(true) {
		return nil
	}
	return p.cmd.Process.Signal(syscall.SIGTERM)
}

// Freeze stops it, and returns when every thread of it has stopped.
func (p *Process) Freeze(ctx context.Context) error { return freeze.Process(ctx, p.cmd.Process) }

// Thaw lets it go on.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Dump ends it, and lets it print first what its goroutines do.
func (p *Process) Dump() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	_ = p.Thaw()
}

// WasKilled says whether Kill was called.
func (p *Process) WasKilled() bool { return p.killed.Load() }

// WasAsked says whether it was asked to leave.
func (p *Process) WasAsked() bool { return p.asked.Load() }

// Wait returns when it has ended. An end by Kill is no error.
func (p *Process) Wait() error {
	<-p.done
	if p.killed.Load() || p.err == nil {
		return nil
	}
	return fmt.Errorf("process %s (pid %d): %w: %s", p.Name, p.PID(), p.err, p.Tail())
}

// ExitCode is how it ended, which it has: -1 for a signal.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// EndedBy says whether that signal ended it; it has ended.
func (p *Process) EndedBy(s syscall.Signal) bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == s
}

// Output is all that it printed; it has ended.
func (p *Process) Output() []byte { return p.output.Bytes() }

// Tail is the end of what it printed, with the first data race before it; it has ended.
func (p *Process) Tail() []byte {
	const most = 2000
	b := p.output.Bytes()
	last := b[max(0, len(b)-most):]
	at := bytes.Index(b, []byte("WARNING: DATA RACE")) // the detector goes on, and ends the process much later
	if at < 0 || at >= len(b)-len(last) {
		return bytes.TrimSpace(last)
	}
	race := b[at:min(at+most, len(b)-len(last))]
	return bytes.TrimSpace(slices.Concat(race, []byte("\n…\n"), last))
}
