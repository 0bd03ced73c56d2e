package command

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/testserver"
)

// The record is tried again, or given up, as soon as the command has failed.
func TestRunnerEndsAllOfAFailedCommand(t *testing.T) {
	t.Parallel()
	const left = `sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 & (set -m; sleep 1000 >/dev/null 2>&1 &); `
	for _, c := range []struct {
		command string
		fails   bool
		left    int
	}{
		{left + "exit 1", true, 0},
		{left + "kill -9 $$", true, 0},
		{"sleep 1000 & exit 0", true, 0}, // its output stays open: whether it is done is not known
		{left + "exit 0", false, 3},      // on purpose
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			mark := "EXEC_TEST=" + rand.Text()
			x := &Runner{Command: c.command, Environ: append(os.Environ(), mark), Stdout: writerFunc(func(p []byte) (int, error) { return len(p), nil }), Stderr: io.Discard, Logger: slog.New(slog.DiscardHandler), Running: &Children{}}
			released(t, x.Running)
			if err := x.Process(t.Context(), &ringfence.Message{Value: []byte("v")}); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			pids := testserver.WithEnviron(t, mark)
			if len(pids) != c.left {
				t.Errorf("%d processes go on; expected %d", len(pids), c.left)
			}
			for _, pid := range pids {
				_ = exec.CommandContext(t.Context(), "kill", "-9", pid).Run() // which may be ending
			}
		})
	}
}

// What ends one command ends nothing of another.
func TestRunnerEndsOnlyTheFailedCommand(t *testing.T) {
	t.Parallel()
	c := &Children{}
	released(t, c)
	c.count = 11 // so that the marks begin alike
	other, err := c.begin()
	if err != nil {
		t.Fatal(err)
	}
	c.end()
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	sleep.Env, sleep.SysProcAttr = []string{other}, &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if !endMarked(strings.TrimSuffix(other, "2")) {
		t.Error("there was nothing to end, and no end to it")
	}
	if err := sleep.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if exit := new(exec.ExitError); !errors.As(sleep.Wait(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Error("another command was killed:", exit)
	}
}

// A command whose runner was left behind, because its store does not answer, runs when the process ends.
func TestReleaseLeavesRunningCommandsToTheWatch(t *testing.T) {
	t.Parallel()
	c := &Children{}
	mark, err := c.begin()
	if err != nil {
		t.Fatal(err)
	}
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	sleep.Env, sleep.SysProcAttr = []string{mark}, &syscall.SysProcAttr{Setsid: true}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = sleep.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	_ = c.Release() // how long the other process takes is the machine's
	if exit := new(exec.ExitError); !errors.As(sleep.Wait(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Error("a command outlived the end:", exit)
	}
}

// What watches over commands may be killed, as any process: the next command begins under another one.
func TestGuardedReplacesAKilledWatch(t *testing.T) {
	t.Parallel()
	c := &Children{}
	released(t, c)
	for range 2 {
		if _, err := c.begin(); err != nil {
			t.Fatal(err)
		}
		c.end()
		pid, ended := c.watch.pid, c.watch.ended
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatalf("no process watches over the command: %v", err)
		}
		if err := c.watch.kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	if _, err := c.begin(); err != nil {
		t.Fatal(err)
	}
	c.end()
}
