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

// process is a server that was started here and is stopped here.
type process struct {
	cmd  *exec.Cmd
	done chan error
	log  string
}

// startProcess runs cmd with its output in a file and waits until ready is nil, at most 30 s.
func startProcess(ctx context.Context, cmd *exec.Cmd, log string, ready func() error) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan error, 1), log: log}
	go func() { p.done <- cmd.Wait() }() // joined by stop, or by the select below
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := ready(); last != nil; last = ready() {
		select {
		case err := <-p.done:
			text, _ := os.ReadFile(log) // it only explains the error
			return nil, fmt.Errorf("%s ended during its start: %w: %s", cmd.Path, err, text)
		case <-limit:
			return nil, errors.Join(fmt.Errorf("%s was not ready within 30 s: %w", cmd.Path, last), p.stop())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), p.stop())
		case <-tick.C:
		}
	}
	return p, nil
}

// stop asks the server to end and waits for it; after 10 s it is killed.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case <-p.done: // its exit code after an interrupt says nothing
		return nil
	case <-time.After(10 * time.Second):
	}
	err := p.cmd.Process.Kill()
	<-p.done
	return errors.Join(fmt.Errorf("%s did not stop within 10 s and was killed", p.cmd.Path), err)
}

// freePort finds a port of the loopback that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("expected a TCP address, found %s", l.Addr())
	}
	return a.Port, nil
}
