package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/testserver"
)

// runner runs a command whose output goes to out.
func runner(command, mark string, out io.Writer) *Runner {
	return &Runner{Command: command, Environ: append(os.Environ(), mark), Stdout: out, Stderr: io.Discard, Logger: slog.New(slog.DiscardHandler), Running: &Children{}}
}

// A command whose partition was lost is asked first, and may put things in order.
func TestRunnerAsksACommandBeforeItKills(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancel(t.Context())
	var said strings.Builder // by one goroutine, which Process joins
	x := runner("trap 'echo asked; exit 0' TERM; echo begun; sleep 1000 & wait", "EXEC_TEST="+rand.Text(), writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "begun") {
			lose()
		}
		return said.Write(p)
	}))
	released(t, x.Running)
	_ = x.Process(ctx, &ringfence.Message{Value: []byte("v")}) // which has been lost, whatever it says
	if !strings.Contains(said.String(), "asked") {
		t.Errorf("it said %q; expected that it was asked to end", said.String())
	}
}

// A process that quits without a clean end takes its commands along, with what they have started.
func TestKillEndsAllCommands(t *testing.T) {
	t.Parallel()
	mark := "EXEC_TEST=" + rand.Text()
	var x *Runner
	x = runner("sleep 1000 & echo begun; wait", mark, writerFunc(func(p []byte) (int, error) {
		for noted := false; !noted; {
			x.Running.pids.Range(func(any, any) bool {
				noted = true
				return false
			})
		}
		x.Running.Kill()
		return len(p), nil
	}))
	released(t, x.Running)
	late := time.AfterFunc(20*time.Second, func() {
		for _, pid := range testserver.WithEnviron(t, mark) {
			_ = exec.CommandContext(context.Background(), "kill", "-9", pid).Run() // which may be ending
		}
	})
	began := time.Now()
	err := x.Process(t.Context(), &ringfence.Message{Value: []byte("v")})
	late.Stop()
	if err == nil || !strings.Contains(err.Error(), "killed") || time.Since(began) > 15*time.Second {
		t.Errorf("%v after %s; expected that it was killed at once", err, time.Since(began))
	}
}

// What a command leaves behind on purpose goes on, also when the process has ended in order.
func TestReleaseSparesWhatACommandLeft(t *testing.T) {
	t.Parallel()
	mark := "EXEC_TEST=" + rand.Text()
	x := runner("setsid sleep 1000 >/dev/null 2>&1 & exit 0", mark, io.Discard)
	if err := x.Process(t.Context(), &ringfence.Message{Value: []byte("v")}); err != nil {
		t.Error(err)
	}
	if err := x.Running.Release(); err != nil {
		t.Error(err)
	}
	pids := testserver.WithEnviron(t, mark)
	if len(pids) != 1 {
		t.Errorf("%d processes go on; expected the one that it left", len(pids))
	}
	for _, pid := range pids {
		_ = exec.CommandContext(t.Context(), "kill", "-9", pid).Run() // which may be ending
	}
}

// Who ends a process ends it by a signal that may reach what watches over its commands, too: that has to outlive it.
func TestWatchHearsNoSignalOfItsCommands(t *testing.T) {
	t.Parallel()
	c := &Children{}
	released(t, c)
	if _, err := c.begin(); err != nil {
		t.Fatal(err)
	}
	c.end()
	if session, err := unix.Getsid(c.watch.pid); err != nil || session != c.watch.pid {
		t.Errorf("it is in session %d, %v; expected one of its own, where no terminal reaches it", session, err)
	}
	var all uint64
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		all |= 1 << (s - 1)
	}
	for end := time.Now().Add(20 * time.Second); ; { // until it has begun
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.watch.pid))
		_, rest, _ := strings.Cut(string(status), "SigIgn:\t")
		line, _, _ := strings.Cut(rest, "\n")
		ignored, _ := strconv.ParseUint(line, 16, 64)
		if ignored&all == all {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("it ignores %x, %v; expected %x", ignored, err, all)
		}
	}
}
