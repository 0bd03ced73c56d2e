package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/internal/script"
)

// patience is how long a server may take to start; to stop it has a third of that.
const patience = 30 * time.Second

// findServer finds the program of a server; "": it is not installed. Debian keeps those of PostgreSQL off the PATH.
func findServer(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return must(filepath.EvalSymlinks(path))
	}
	if found := must(filepath.Glob("/usr/lib/postgresql/*/bin/" + name)); len(found) > 0 {
		return found[len(found)-1]
	}
	return ""
}

// startProcess runs a server until the script ends, its output in a file, and waits until ready is nil.
func startProcess(ctx context.Context, s *script.Script, log string, setup func(*exec.Cmd), ready func() error, name string, args ...string) {
	out := must(os.Create(log))
	s.Later(out.Close)
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience / 3 // and then it is killed
	setup(cmd)
	if err := cmd.Start(); err != nil {
		cancel()
		check(err)
	}
	done := make(chan struct{})
	var ended error
	go func() { // joined by what is done later
		ended = cmd.Wait()
		close(done)
	}()
	s.Later(func() error {
		cancel()
		<-done
		if errors.Is(ended, exec.ErrWaitDelay) || cmd.ProcessState.String() == "signal: killed" {
			return fmt.Errorf("%s did not stop within %s and was killed", name, cmd.WaitDelay)
		}
		return nil // its exit code after an interrupt says nothing
	})
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := ready(); last != nil; last = ready() {
		select {
		case <-done:
			text, _ := os.ReadFile(log) // it only explains the error
			check(fmt.Errorf("%s ended during its start: %w: %s", name, ended, text))
		case <-limit:
			check(fmt.Errorf("%s was not ready within %s: %w", name, patience, last))
		case <-ctx.Done():
			check(ctx.Err())
		case <-tick.C:
		}
	}
}

// freePort finds a free port of the loopback.
func freePort() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
