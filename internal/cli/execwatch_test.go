package cli

import (
	"bufio"
	"crypto/rand"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
)

// consuming starts a consumer with a command, and returns when the command has said "begun".
func consuming(t *testing.T, mark, command string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := program(t, "", append([]string{"consume", "t", "--group", "x", "--data", dataWithARecord(t), "--exec", command}, args...)...)
	cmd.Env = append(cmd.Env, mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatal(line, err)
	}
	return cmd, lines
}

// A member that is killed is followed by another one, which hands the record to a command of its own. What
// the first one had started, in groups and sessions of their own too, must not go on beside that.
func TestWatchEndsCommandsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	mark := "EXEC_TEST=" + rand.Text()
	cmd, _ := consuming(t, mark, `sleep 1000 & setsid sleep 1000 & setsid sh -c "sleep 1000; :" & env -u RINGFENCE_RECORD_WATCH sleep 1000 & (set -m; sleep 1000 &); sleep .3; echo begun; sleep 1000`)
	if n := len(testserver.WithEnviron(t, mark)); n < 6 {
		t.Fatalf("%d processes run; expected those of the command", n)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(20 * time.Second); ; {
		<-time.After(5 * time.Millisecond)
		left := testserver.WithEnviron(t, mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			out, _ := exec.CommandContext(t.Context(), "ps", "-o", "pid,ppid,pgid,args", "-p", strings.Join(left, ",")).Output()
			for _, pid := range left {
				_ = exec.CommandContext(t.Context(), "kill", "-9", pid).Run()
			}
			t.Fatalf("these go on beside the commands of the next owner:\n%s", out)
		}
	}
}

// What a command leaves running on purpose, and that passed for done, goes on.
func TestConsumeSparesWhatACommandLeft(t *testing.T) {
	t.Parallel()
	mark := "EXEC_TEST=" + rand.Text()
	cmd, lines := consuming(t, mark, `setsid sleep 1000 >/dev/null 2>&1 & echo begun`, "--max", "1")
	_, _ = io.ReadAll(lines)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	left := testserver.WithEnviron(t, mark)
	if len(left) != 1 {
		t.Errorf("%d processes are left; expected the one that was started", len(left))
	}
	for _, pid := range left {
		if err := exec.CommandContext(t.Context(), "kill", "-9", pid).Run(); err != nil {
			t.Error(err)
		}
	}
}
