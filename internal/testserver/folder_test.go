package testserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// verb runs a verb of scripts/services on the servers in a folder, and returns what it printed.
func verb(t *testing.T, state string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Above(t, "scripts/services"), args...)
	cmd.Env = append(os.Environ(), "RINGFENCE_SERVICES="+state)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// planted makes the folder of a Redis that seems to run there.
func planted(t *testing.T, env string) (state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "s")
	dir := filepath.Join(state, "redis")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), "sleep", "600")
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for name, content := range map[string]string{"pid": strconv.Itoa(server.Process.Pid), "env": env, "born": born(t, server.Process.Pid)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// born is what scripts/services notes of a process: its pid, its start time, and the boot of the machine.
func born(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strconv.Itoa(pid) + " " + strings.Fields(rest)[19] + " " + string(boot)
}

func TestEnvQuotesURLsForAShell(t *testing.T) {
	t.Parallel()
	got, _, err := verb(t, planted(t, "RINGFENCE_REDIS_URL=redis://:a%27b@127.0.0.1:1/?tls-ca=/d/ca.pem&x=y\n"), "env")
	if want := "export RINGFENCE_REDIS_URL='redis://:a%27b@127.0.0.1:1/?tls-ca=/d/ca.pem&x=y'\n"; err != nil || got != want {
		t.Errorf("printed %q (%v); expected %q", got, err, want)
	}
}

func TestAFolderThatOthersCanWriteToIsRefused(t *testing.T) {
	t.Parallel()
	state := planted(t, "RINGFENCE_REDIS_URL=redis://127.0.0.1:1\n")
	chmod(t, state, 0o770)
	for _, v := range []string{"env", "list", "stop", "start"} {
		out, errs, err := verb(t, state, v, "redis")
		if err == nil || out != "" || !strings.Contains(errs, state+" has to be a folder of yours") {
			t.Errorf("%s: printed %q, %q (%v); expected a refusal", v, out, errs, err)
		}
	}
}

func TestJarsThatAreNotOnTheListAreNotRun(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	chmod(t, cache, 0o700)
	jars := filepath.Join(cache, "h2-2.3.232")
	if err := os.Mkdir(jars, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"h2-2.3.232.jar": "not H2", "complete": "as an earlier version left it"} {
		if err := os.WriteFile(filepath.Join(jars, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), Above(t, "scripts/services"), "list")
	cmd.Env = append(os.Environ(), "RINGFENCE_CACHE="+cache, "RINGFENCE_SERVICES="+filepath.Join(t.TempDir(), "s"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "h2 ") && !strings.Contains(line, "not installed") {
			t.Errorf("%sexpected that other jars than those of the list are not installed", line)
		}
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// The log of a server that did not start may be empty, so the script tells how it ended.
func TestAServerThatEndsByItselfIsStartedOnceMoreAndTold(t *testing.T) {
	t.Parallel()
	s := Private(t, "redis")
	s.Kill()
	state := filepath.Join(s.dir, "s")
	found, err := filepath.Glob(filepath.Join(state, "redis", "appendonlydir", "*.manifest"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	sound, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(found[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("nonsense"))
	_, errs, err := verb(t, state, "start", "redis")
	if err == nil || strings.Count(errs, "redis ended with exit code 1\n") != 2 || !strings.Contains(errs, "once more") || !strings.Contains(errs, "manifest") {
		t.Errorf("%v, %s; expected two tries, how they ended, and the log", err, errs)
	}
	write(sound)
	s.Restart() // its data are still there
}

// Pids are used again: another process with the pid of a server is not that server.
func TestAServerRunsWhileItsOwnProcessDoes(t *testing.T) {
	t.Parallel()
	state := planted(t, "RINGFENCE_REDIS_URL=redis://127.0.0.1:1\n")
	file := filepath.Join(state, "redis", "born")
	own, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(own))
	for born, runs := range map[string]bool{
		string(own): true,
		fields[0] + " " + fields[1] + "1 " + fields[2] + "\n": false,
		fields[0] + " " + fields[1] + " another\n":            false,
		"": false,
	} {
		if err := os.WriteFile(file, []byte(born), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, errs, err := verb(t, state, "env"); err != nil || (out != "") != runs {
			t.Errorf("of a process that began at %q: printed %q, %q (%v); expected that it runs: %t", born, out, errs, err, runs)
		}
	}
}
