package doctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is for a command on a machine that does a lot besides.
const patience = 4 * time.Minute

// session is a shell that stays: what a command sets, exports or enters is there for the next one.
// Its process group is what a terminal would send Ctrl-C to.
type session struct {
	dir   string
	shell *exec.Cmd
	say   io.WriteCloser // commands, each with a NUL byte behind it
	codes *bufio.Reader  // a line with the exit code of each
	out   string         // the file that the command under way prints to
}

// loop runs the commands that come in on descriptor 3. A signal for the group ends the command and
// not the shell; the trap does so, and is gone in what the shell starts.
const loop = `set -o pipefail; trap : INT
while IFS= read -r -d '' command <&3; do
	eval "$command" <"$DOCTEST/in" >"$DOCTEST/out" 2>&1 3<&- 4>&-
	echo $? >&4
done`

// open starts a shell in a new folder, with path in front of PATH and without a setting of this
// machine for the program.
func open(t *testing.T, path string, env []string) *session {
	t.Helper()
	s := &session{dir: t.TempDir()}
	aside := t.TempDir()
	s.out = filepath.Join(aside, "out")
	commands, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	codes, answer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.say, s.codes = say, bufio.NewReader(codes)
	s.shell = exec.Command("bash", "--norc", "-c", loop)
	s.shell.Dir = s.dir
	s.shell.ExtraFiles = []*os.File{commands, answer}
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "RINGFENCE_") && name != "PATH" {
			s.shell.Env = append(s.shell.Env, kv)
		}
	}
	s.shell.Env = append(s.shell.Env, "PATH="+path+":"+os.Getenv("PATH"), "DOCTEST="+aside, "HOME="+s.dir, "LC_ALL=C.UTF-8")
	s.shell.Env = append(s.shell.Env, env...)
	if err := errors.Join(s.shell.Start(), commands.Close(), answer.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.signal(syscall.SIGKILL) // the shell, and whatever it left behind
		_ = s.shell.Wait()
		_ = errors.Join(say.Close(), codes.Close())
	})
	return s
}

func (s *session) signal(sig syscall.Signal) { _ = syscall.Kill(-s.shell.Process.Pid, sig) }

// run runs a command with stdin and returns what it printed, to either stream, and its exit code.
// It interrupts the command once all of until were printed, and gives up after patience.
func (s *session) run(command, stdin string, until []string) (string, int, error) {
	closeInput, err := s.typed(stdin, len(until) > 0)
	if err != nil {
		return "", 0, err
	}
	defer closeInput()
	if err := os.WriteFile(s.out, nil, 0o600); err != nil {
		return "", 0, err
	}
	if _, err := io.WriteString(s.say, command+"\x00"); err != nil {
		return "", 0, err
	}
	ended := make(chan string, 1)
	go func() { // ends with the command, or with the shell
		line, _ := s.codes.ReadString('\n')
		ended <- strings.TrimSpace(line)
	}()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	limit := time.After(patience)
	interrupted := len(until) == 0
	for {
		select {
		case code := <-ended:
			n, err := strconv.Atoi(code)
			if err == nil && !interrupted {
				err = fmt.Errorf("ended by itself with code %d; expected it to go on until it had printed %q", n, until)
			}
			return s.printed(), n, err
		case <-look.C:
			if !interrupted && missing(until, s.printed()) == "" {
				interrupted = true
				s.signal(syscall.SIGINT)
			}
		case <-limit:
			s.signal(syscall.SIGKILL)
			<-ended
			return s.printed(), -1, fmt.Errorf("did not end within %s; expected Ctrl-C after %q", patience, until)
		}
	}
}

// typed makes the input of the next command: at its end the command sees the end of the input, or
// waits for more, as at a terminal.
func (s *session) typed(text string, more bool) (done func(), err error) {
	in := filepath.Join(filepath.Dir(s.out), "in")
	if err := os.Remove(in); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if !more {
		return func() {}, os.WriteFile(in, []byte(text), 0o600)
	}
	if err := syscall.Mkfifo(in, 0o600); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(in, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text)
	return func() { _ = f.Close() }, err
}

func (s *session) printed() string {
	b, err := os.ReadFile(s.out)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// missing is the first of the patterns that is not in the text, or nothing.
func missing(patterns []string, text string) string {
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(text) {
			return p
		}
	}
	return ""
}
