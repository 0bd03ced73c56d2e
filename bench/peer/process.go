package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// patience is how long a server may take to start; to stop it has a third of that.
const patience = 30 * time.Second

// process is a server that was started here and is stopped here.
type process struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan error
}

// startProcess runs a program, prepared by setup, with its output in a file, and waits until ready is nil.
func startProcess(ctx context.Context, log string, setup func(*exec.Cmd), ready func() error, name string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{cmd: exec.CommandContext(life, name, args...), cancel: cancel, done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = patience / 3 // and then it is killed
	setup(p.cmd)
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	go func() { p.done <- p.cmd.Wait() }() // joined by stop, or by the select below
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := ready(); last != nil; last = ready() {
		select {
		case err := <-p.done:
			cancel()
			text, _ := os.ReadFile(log) // it only explains the error
			return nil, fmt.Errorf("%s ended during its start: %w: %s", name, err, text)
		case <-limit:
			return nil, errors.Join(fmt.Errorf("%s was not ready within %s: %w", name, patience, last), p.stop())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), p.stop())
		case <-tick.C:
		}
	}
	return p, nil
}

// stop asks the server to end and waits for it; one that does not in time is killed.
func (p *process) stop() error {
	p.cancel()
	if err := <-p.done; errors.Is(err, exec.ErrWaitDelay) || p.cmd.ProcessState.String() == "signal: killed" {
		return fmt.Errorf("%s did not stop within %s and was killed", p.cmd.Path, p.cmd.WaitDelay)
	}
	return nil // its exit code after an interrupt says nothing
}

// freePort finds a port of the loopback that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
