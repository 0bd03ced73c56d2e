package testserver

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowest is how long a verb of scripts/services may take: Pulsar starts in ten seconds when idle.
const slowest = 6 * time.Minute

// Server is a server that one test has for itself, and may therefore hurt.
type Server struct {
	t    testing.TB
	name string
	dir  string
	url  string
}

// Private starts a server of that name for this test only; its end removes it. Like URL it skips
// the test where the server is not installed, and fails it where RINGFENCE_REQUIRE demands it.
//
// It takes a second or two for most servers: use one for many subtests.
func Private(t testing.TB, name string) *Server {
	t.Helper()
	// Not t.TempDir: servers that refuse root have to reach it, and the path of a Unix socket has 107 bytes at most.
	dir, err := os.MkdirTemp("", "rf")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, name: name, dir: dir}
	script := Above(t, "scripts/services")
	release, err := watch(script, dir, s.environ())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.tell()
		}
		s.services("stop")
		if err := os.Remove(dir); err != nil {
			t.Errorf("%v: servers left something", err)
		}
		release()
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if !s.installed() {
		missing(t, name, "it is not installed (scripts/services install "+name+")")
	}
	s.services("start", name)
	env := s.services("env")
	for line := range strings.Lines(env) {
		if u, ok := strings.CutPrefix(strings.TrimSpace(line), "export "+variable(name)+"="); ok {
			s.url = strings.Trim(u, "'")
			return s
		}
	}
	t.Fatalf("scripts/services start %s printed no %s:\n%s", name, variable(name), env)
	return nil
}

// tell shows the end of what the server's processes logged: a test that failed may be their doing.
func (s *Server) tell() {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "s", s.name, "log")) // the pattern is sound
	more, _ := filepath.Glob(filepath.Join(s.dir, "s", s.name, "*", "log"))
	for _, path := range append(logs, more...) {
		text, err := os.ReadFile(path)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		s.t.Logf("the last lines of %s, %v:\n%s", path, err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// URL is where it listens; the same after Restart.
func (s *Server) URL() string { return s.url }

// Part is one process of a server that is several, by its name in scripts/services.d, such as the
// second broker of a cluster; Kill and the others hurt it alone. Its URL is that of the whole.
func (s *Server) Part(part string) *Server {
	p := *s
	p.name += "/" + part
	return &p
}

// Kill ends it with SIGKILL, and with it all of its processes. Its data stay.
func (s *Server) Kill() { s.t.Helper(); s.services("kill", s.name) }

// Stop ends it in order. Its data stay.
func (s *Server) Stop() { s.t.Helper(); s.services("halt", s.name) }

// Restart starts it after Kill or Stop, on the same port and data, and returns when it answers.
func (s *Server) Restart() { s.t.Helper(); s.services("start", s.name) }

// Save keeps a copy of the server's data, for which it is halted and started again. What it returns
// puts the copy back, as one restores a backup: all that was written since is lost.
func (s *Server) Save() (restore func()) {
	s.t.Helper()
	data, kept := filepath.Join(s.dir, "s", s.name), filepath.Join(s.dir, "kept")
	s.t.Cleanup(func() {
		if err := os.RemoveAll(kept); err != nil {
			s.t.Error(err)
		}
	})
	s.Stop()
	s.copy(data, kept)
	s.Restart()
	return func() {
		s.t.Helper()
		s.Stop()
		if err := os.RemoveAll(data); err != nil {
			s.t.Fatal(err)
		}
		s.copy(kept, data)
		s.Restart()
	}
}

// copy copies a folder with the owners and rights of what is in it.
func (s *Server) copy(from, to string) {
	s.t.Helper()
	if out, err := exec.CommandContext(s.t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		s.t.Fatalf("cp -a %s %s: %v\n%s", from, to, err, out)
	}
}

// Freeze stops all its processes (SIGSTOP): connections stay open, and nothing answers.
func (s *Server) Freeze() { s.t.Helper(); s.services("freeze", s.name) }

// Thaw lets it go on after Freeze.
func (s *Server) Thaw() { s.t.Helper(); s.services("thaw", s.name) }

func (s *Server) installed() bool {
	s.t.Helper()
	for line := range strings.Lines(s.services("list")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == s.name {
			return f[1] == "installed"
		}
	}
	s.t.Fatalf("scripts/services knows no %s", s.name)
	return false
}

// services runs a verb of scripts/services on the servers of this test.
func (s *Server) services(args ...string) string {
	s.t.Helper()
	// Not the test's context: Cleanup runs after its end.
	ctx, cancel := context.WithTimeout(context.Background(), slowest)
	defer cancel()
	cmd := exec.CommandContext(ctx, Above(s.t, "scripts/services"), args...)
	cmd.Env = s.environ()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A server that is started must not keep this call waiting by holding its pipes, and what the
	// script runs must not outlive it when it takes too long. Servers have sessions of their own.
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		s.t.Fatalf("scripts/services %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	if errs.Len() > 0 { // a start that took two tries, and why
		s.t.Logf("scripts/services %s:\n%s", strings.Join(args, " "), errs.String())
	}
	return out.String()
}

func (s *Server) environ() []string {
	return append(os.Environ(), "RINGFENCE_SERVICES="+filepath.Join(s.dir, "s"))
}

// Above finds a file of the checkout that the test runs in.
func Above(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, name)
		if _, absent := os.Stat(path); absent == nil {
			return path
		}
		if dir == filepath.Dir(dir) {
			err = errors.New(name + " is in no folder above the test's")
		}
	}
	t.Fatal(err)
	return ""
}

func variable(name string) string { return "RINGFENCE_" + strings.ToUpper(name) + "_URL" }

func required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("RINGFENCE_REQUIRE"), ","), name)
}

func missing(t testing.TB, name, why string) {
	t.Helper()
	if required(name) {
		t.Fatalf("RINGFENCE_REQUIRE demands %s, but %s", name, why)
	}
	t.Skipf("no %s: %s", name, why) //nolint:forbidigo // RINGFENCE_REQUIRE makes it a failure
}
