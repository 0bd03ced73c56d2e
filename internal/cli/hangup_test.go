package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// program is this program with a command line, as a process of its own; how says what a shell does
// before it.
func program(t *testing.T, how string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "ringfence") // by this name TestMain runs the program
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", how + `exec "$0" "$@"`, link}, args...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	if signal.Ignored(syscall.SIGHUP) { // these tests run under nohup: a process would begin with it, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return cmd
}

func dataWithARecord(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	plant(t, dir)
	return dir
}

// A terminal that is closed says so once or several times. It is no reason to leave without a hand-over.
func TestClosedTerminalEndsACommandCleanly(t *testing.T) {
	t.Parallel()
	dir := dataWithARecord(t)
	for _, args := range [][]string{
		{"tail", "t", "--from", "earliest"},
		{"consume", "t", "--group", "hung"},
	} {
		for how, goesOn := range map[string]bool{"": false, `trap "" HUP; `: true} {
			t.Run(args[0]+" "+how, func(t *testing.T) {
				t.Parallel()
				line := append(slices.Clone(args), "--data", dir)
				if goesOn && args[0] == "consume" {
					line = append(line, "--group", "kept") // the other one has the record
				}
				cmd := program(t, how, line...)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				var errs bytes.Buffer
				cmd.Stderr = &errs
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				signals := []syscall.Signal{syscall.SIGHUP}
				if goesOn {
					signals = append(signals, syscall.SIGTERM)
				}
				for _, s := range signals {
					if err := cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
					if s != signals[len(signals)-1] && !ignores(t, cmd.Process.Pid, s) {
						t.Errorf("%s is not ignored any more", s)
					}
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("%v: %s; expected a clean end", err, &errs)
				}
			})
		}
	}
}

// ignores tells whether a process ignores a signal.
func ignores(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	set, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set&(1<<(s-1)) != 0
}

// display is the outer side of a terminal: what was shown so far.
type display struct {
	*os.File
	mu    sync.Mutex
	shown bytes.Buffer
	done  chan struct{}
}

func newDisplay(t *testing.T) (outside *display, inside *os.File) {
	t.Helper()
	outer, inner := openTerminal(t)
	d := &display{File: outer, done: make(chan struct{})}
	go func() { // ends with the terminal
		defer close(d.done)
		b := make([]byte, 1<<16)
		for {
			n, err := outer.Read(b)
			d.mu.Lock()
			d.shown.Write(b[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = outer.Close() })
	return d, inner
}

func (d *display) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shown.String()
}

func (d *display) await(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(d.text(), what); {
		<-time.After(5 * time.Millisecond)
		if time.Now().After(end) {
			t.Fatalf("%q was not shown: %q", what, d.text())
		}
	}
}

// cooked tells whether the terminal shows what is typed.
func cooked(t *testing.T, f *os.File) bool {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var state *unix.Termios
	var asked error
	if err := errors.Join(raw.Control(func(fd uintptr) { state, asked = unix.IoctlGetTermios(int(fd), unix.TCGETS) }), asked); err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0 && state.Lflag&unix.ICANON != 0
}

const back = "\x1b[?1049l"

func TestTopGivesTheTerminalBackHoweverItEnds(t *testing.T) {
	t.Parallel()
	dir := dataWithARecord(t)
	for name, c := range map[string]struct {
		end  func(*exec.Cmd, *display) error
		code int
	}{
		"hangup": {func(c *exec.Cmd, _ *display) error { return c.Process.Signal(syscall.SIGHUP) }, 0},
		"term":   {func(c *exec.Cmd, _ *display) error { return c.Process.Signal(syscall.SIGTERM) }, 0},
		"key":    {func(_ *exec.Cmd, d *display) error { _, err := io.WriteString(d, "q"); return err }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, inner := newDisplay(t)
			cmd := program(t, "", "top", "--data", dir)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = inner, inner, io.Discard
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			d.await(t, "WHY")
			if cooked(t, inner) {
				t.Error("the terminal was not taken")
			}
			if err := c.end(cmd, d); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d; expected %d", got, c.code)
			}
			if !cooked(t, inner) {
				t.Error("the terminal shows nothing that is typed")
			}
			_ = inner.Close()
			if <-d.done; !strings.Contains(d.text(), back) {
				t.Error("the terminal still shows the other screen")
			}
		})
	}
}

func TestDumbTerminalGetsNoSequences(t *testing.T) {
	t.Parallel()
	dir := dataWithARecord(t)
	for _, args := range [][]string{{"top", "--count", "2", "--every", "50ms"}, {"group", "describe", "g"}, {"topic", "list"}} {
		d, inner := newDisplay(t)
		cmd := program(t, "", append(args, "--data", dir)...)
		cmd.Env = append(os.Environ(), "TERM=dumb")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = inner, inner, inner
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		_ = inner.Close()
		<-d.done
		if got := d.text(); strings.Contains(got, "\x1b") || !strings.Contains(got, "\n") {
			t.Errorf("%s: %q; expected lines without sequences", args, got)
		}
	}
}
