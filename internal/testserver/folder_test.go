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
	script, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, args...)
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
	for name, content := range map[string]string{"pid": strconv.Itoa(server.Process.Pid), "env": env} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

func TestEnvPrintsURLsAndNothingThatAShellWouldRun(t *testing.T) {
	t.Parallel()
	good, _, err := verb(t, planted(t, "RINGFENCE_REDIS_URL=redis://:a%27b@127.0.0.1:1/?tls-ca=/d/ca.pem&x=y\n"), "env")
	if want := "export RINGFENCE_REDIS_URL='redis://:a%27b@127.0.0.1:1/?tls-ca=/d/ca.pem&x=y'\n"; err != nil || good != want {
		t.Errorf("printed %q (%v); expected %q", good, err, want)
	}
	for _, line := range []string{
		"RINGFENCE_REDIS_URL=x'; touch pwned; : '",
		"RINGFENCE_REDIS_URL=redis://h/'; touch pwned; : '",
		"RINGFENCE_REDIS_URL=redis://h/$(touch pwned)",
		"PATH=/tmp/x",
		"touch pwned",
	} {
		out, errs, err := verb(t, planted(t, line+"\n"), "env")
		if err == nil || out != "" || !strings.Contains(errs, "holds something else") {
			t.Errorf("%s: printed %q, %q (%v); expected a refusal", line, out, errs, err)
		}
	}
}

func TestServersAreNotLookedForInAFolderThatOthersCanWriteTo(t *testing.T) {
	t.Parallel()
	const line = "RINGFENCE_REDIS_URL=redis://127.0.0.1:1\n"
	open := planted(t, line)
	chmod(t, open, 0o777|os.ModeSticky)
	above := planted(t, line)
	chmod(t, filepath.Dir(above), 0o777)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(planted(t, line), link); err != nil {
		t.Fatal(err)
	}
	group := planted(t, line) // of this user, and of whoever else is in it
	chmod(t, group, 0o770)
	aboveGroup := planted(t, line)
	chmod(t, filepath.Dir(aboveGroup), 0o775)
	for state, says := range map[string]string{open: "others can write to " + open, group: "others can write to " + group, aboveGroup: "others can write to " + filepath.Dir(aboveGroup), above: "others can write to " + filepath.Dir(above), link: "a link is not followed"} {
		for _, v := range []string{"env", "list", "stop", "start"} {
			out, errs, err := verb(t, state, v, "redis")
			if err == nil || out != "" || !strings.Contains(errs, says) {
				t.Errorf("%s in %s: printed %q, %q (%v); expected %q", v, state, out, errs, err, says)
			}
		}
	}
}

func TestServersAreNotLookedForInAFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	who := Stranger(t)
	own := planted(t, "RINGFENCE_REDIS_URL=redis://127.0.0.1:1\n")
	chown(t, own, who)
	above := planted(t, "RINGFENCE_REDIS_URL=redis://127.0.0.1:1\n")
	chown(t, filepath.Dir(above), who)
	for state, says := range map[string]string{own: "belongs to nobody", above: "who could put another folder there"} {
		for _, v := range []string{"env", "start"} {
			out, errs, err := verb(t, state, v, "redis")
			if err == nil || out != "" || !strings.Contains(errs, says) {
				t.Errorf("%s in %s: printed %q, %q (%v); expected %q", v, state, out, errs, err, says)
			}
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
	script, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, "list")
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

func chown(t *testing.T, path string, uid int) {
	t.Helper()
	if err := os.Chown(path, uid, -1); err != nil {
		t.Fatal(err)
	}
}

// Whoever reads of a server that did not start wants to know how it ended: its log may have nothing.
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

// A server runs as long as the process does that was started, wherever that goes: Java stands in a folder
// of its own for a moment, and was taken for one that had ended, and killed, while it started. And what
// has its pid now is another one.
func TestAServerRunsWhereverItGoes(t *testing.T) {
	t.Parallel()
	state := planted(t, "RINGFENCE_REDIS_URL=redis://127.0.0.1:1\n")
	dir := filepath.Join(state, "redis")
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(filepath.Join("/proc", string(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	elsewhere := filepath.Join(state, "elsewhere")
	if err := os.Rename(dir, elsewhere); err != nil { // with the process in it
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(elsewhere)); err != nil {
		t.Fatal(err)
	}
	began := string(pid) + " " + strings.Fields(rest)[19]
	for born, runs := range map[string]bool{began + " " + string(boot): true, began + "1 " + string(boot): false, began + " another\n": false, "": false} {
		if err := os.WriteFile(filepath.Join(dir, "born"), []byte(born), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, err := verb(t, state, "env")
		if err != nil || (out != "") != runs {
			t.Errorf("of a process that began at %q: printed %q, %q (%v); expected that it runs: %t", born, out, errs, err, runs)
		}
	}
}
