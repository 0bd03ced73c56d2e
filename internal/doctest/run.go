package doctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is for a command on a machine that does a lot besides.
const patience = 4 * time.Minute

// reading is how far a script is in its page.
type reading struct {
	root    string
	page    string
	steps   []step
	printed strings.Builder
	subs    []sub
}

// sub is a text of the page that stands for something of the reader's. Without its server a command is not run.
type sub struct{ text, by, server string }

type key struct{}

func of(ts *testscript.TestScript) *reading { return ts.Value(key{}).(*reading) }

// Run runs the scripts of a folder, each with its page.
func Run(t *testing.T, dir string) {
	root := Root(t)
	testscript.Run(t, testscript.Params{
		Dir: dir, Cmds: Commands, Condition: served,
		Setup: func(e *testscript.Env) error {
			for _, kv := range os.Environ() {
				if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "RINGFENCE_") {
					e.Setenv(name, "") // a setting of the machine must not change what a page shows
					if server, ok := strings.CutSuffix(strings.TrimPrefix(name, "RINGFENCE_"), "_URL"); ok {
						parts(e, server, value)
					}
				}
			}
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("LC_ALL", "C.UTF-8")
			e.Setenv("CHECKOUT", root)
			e.Setenv("OWN", fmt.Sprintf("doctest-%016x", rand.Uint64())) // a name that no other test has
			e.Values[key{}] = &reading{root: root}
			return nil
		},
	})
}

// Commands are what scripts have besides those of testscript.
var Commands = map[string]func(*testscript.TestScript, bool, []string){
	"page":  page,  // page PATH: the script is about it
	"for":   stand, // for TEXT [SERVER] BY: what stands for TEXT in commands from here on
	"upto":  upto,  // upto TEXT: run all before the line with TEXT
	"run":   run,   // [!] run TEXT: all before, and that line; ! expects a failure
	"until": until, // until TEXT [<FILE] PATTERN...: as run, with Ctrl-C once all patterns were printed
	"drop":  drop,  // drop TEXT REASON: run all before, but not that line; of a block without commands, all of it
	"write": write, // write TEXT FILE: the block that begins with TEXT is the content of FILE
	"sh":    sh,    // [!] sh COMMANDS|FILE: what the page does not show, in the same shell
	"end":   end,   // end: run the rest
}

func page(ts *testscript.TestScript, _ bool, args []string) {
	r := of(ts)
	p, err := Read(r.root, args[0])
	ts.Check(err)
	r.page, r.steps = args[0], p.steps()
}

func stand(ts *testscript.TestScript, _ bool, args []string) {
	s := sub{text: args[0], by: args[len(args)-1]}
	if len(args) == 3 {
		s.server = args[1]
	}
	of(ts).subs = append(of(ts).subs, s)
}

// next runs all lines before the one with text, and takes that.
func next(ts *testscript.TestScript, text string) step {
	upto(ts, false, []string{text})
	r := of(ts)
	s := r.steps[0]
	r.steps = r.steps[1:]
	return s
}

func upto(ts *testscript.TestScript, _ bool, args []string) {
	r := of(ts)
	n := slices.IndexFunc(r.steps, func(s step) bool { return strings.Contains(s.text, args[0]) })
	if n < 0 {
		ts.Fatalf("%s has no line with %q from here on: write it as the page does, or drop it", r.page, args[0])
	}
	for range n {
		play(ts)
	}
}

func end(ts *testscript.TestScript, _ bool, _ []string) {
	for len(of(ts).steps) > 0 {
		play(ts)
	}
}

// play runs the next line, or looks whether it was printed.
func play(ts *testscript.TestScript) {
	r := of(ts)
	s := r.steps[0]
	r.steps = r.steps[1:]
	if !s.command {
		if s.text != "" && !shown(s.text, s.exact, r.printed.String()) {
			ts.Fatalf("%s:%d: %q is no command that internal/doctest knows, and nothing above has printed it", r.page, s.line, s.text)
		}
		return
	}
	try(ts, s, false)
}

// try runs a line, which has to fail where neg is set, and else must not.
func try(ts *testscript.TestScript, s step, neg bool) {
	if code, ran := bash(ts, s, "", nil); ran && (code != 0) != neg {
		ts.Fatalf("%s:%d: %s: exit code %d", of(ts).page, s.line, s.text, code)
	}
}

func run(ts *testscript.TestScript, neg bool, args []string) { try(ts, next(ts, args[0]), neg) }

func until(ts *testscript.TestScript, _ bool, args []string) {
	s, stdin, patterns := next(ts, args[0]), "", args[1:]
	if name, ok := strings.CutPrefix(patterns[0], "<"); ok {
		stdin, patterns = ts.MkAbs(name), patterns[1:]
	}
	if code, ran := bash(ts, s, stdin, patterns); ran && code != 0 && code != 130 {
		ts.Fatalf("%s:%d: %s: exit code %d", of(ts).page, s.line, s.text, code)
	}
}

func drop(ts *testscript.TestScript, _ bool, args []string) {
	s := next(ts, args[0])
	ts.Logf("%s:%d is not run: %s", of(ts).page, s.line, args[1])
	if !s.command {
		rest(ts, s)
	}
}

func write(ts *testscript.TestScript, _ bool, args []string) {
	s := next(ts, args[0])
	rest(ts, s)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(s.block.Lines, "\n")+"\n"), 0o600))
}

// rest passes over the block that begins with s.
func rest(ts *testscript.TestScript, s step) {
	r := of(ts)
	for s.block != nil && len(r.steps) > 0 && r.steps[0].line < s.block.Line+len(s.block.Lines) {
		r.steps = r.steps[1:]
	}
}

func sh(ts *testscript.TestScript, neg bool, args []string) {
	text := args[0]
	if b, err := os.ReadFile(ts.MkAbs(text)); err == nil {
		text = string(b)
	}
	try(ts, step{text: text}, neg)
}

// shown says whether a line was printed: … stands for anything, and a number for any other unless the line is exact.
func shown(line string, exact bool, printed string) bool {
	want := regexp.QuoteMeta(strings.TrimSpace(line))
	if !exact {
		want = regexp.MustCompile(`\d[\d,]*`).ReplaceAllString(want, `\d[\d,]*`)
	}
	want = regexp.MustCompile(`\s+`).ReplaceAllString(strings.ReplaceAll(want, "…", ".*"), `\s+`)
	return regexp.MustCompile(`(?m)^\s*` + want + `\s*$`).MatchString(printed)
}

// shell runs one command and leaves variables and folder to the next one. Ctrl-C ends the command and not the shell.
const shell = `set -a -o pipefail; trap : INT; [ -e "$STATE" ] && . "$STATE"
eval "$1"; code=$?
{ export -p; printf 'cd %q\n' "$PWD"; } >"$STATE"; exit $code`

// bash runs a line and returns its exit code, or false when a server that it needs is not there.
func bash(ts *testscript.TestScript, s step, stdin string, patterns []string) (int, bool) {
	r, text := of(ts), s.text
	for _, sub := range r.subs {
		if !strings.Contains(text, sub.text) {
			continue
		}
		if there, err := served(sub.server); err != nil {
			ts.Fatalf("%v", err)
		} else if sub.server != "" && !there {
			ts.Logf("%s:%d is not run: there is no %s", r.page, s.line, sub.server)
			return 0, false
		}
		text = strings.ReplaceAll(text, sub.text, sub.by)
	}
	if target, ok := strings.CutPrefix(text, "make "); ok { // the target has to be there
		text = "make -n -C '" + r.root + "' " + target
	}
	out, err := os.Create(ts.MkAbs(".out"))
	ts.Check(err)
	cmd := exec.Command("bash", "--norc", "-c", shell, "bash", text)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "STATE="+ts.MkAbs(".state"))
	for _, name := range []string{"PATH", "HOME", "LC_ALL", "CHECKOUT", "OWN", "ENDPOINT"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "RINGFENCE_") })
	if len(patterns) > 0 { // it waits for more, as at a terminal
		in, err := os.OpenFile(fifo(ts), os.O_RDWR, 0)
		ts.Check(err)
		defer in.Close()
		if stdin != "" {
			_, err = in.WriteString(ts.ReadFile(stdin))
			ts.Check(err)
		}
		cmd.Stdin = in
	}
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // what it left behind
	code, err := wait(cmd, out.Name(), patterns)
	printed := ts.ReadFile(out.Name())
	_ = out.Close()
	r.printed.WriteString(printed)
	_, _ = ts.Stdout().Write([]byte(printed[max(0, len(printed)-64<<10):]))
	if err != nil {
		ts.Fatalf("%s:%d: %s: %v", r.page, s.line, text, err)
	}
	return code, true
}

func fifo(ts *testscript.TestScript) string {
	path := ts.MkAbs(".in")
	_ = os.Remove(path)
	ts.Check(syscall.Mkfifo(path, 0o600))
	return path
}

// wait waits for the end of a command, which it interrupts once all patterns were printed.
func wait(cmd *exec.Cmd, out string, patterns []string) (int, error) {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	limit := time.After(patience)
	for interrupted := len(patterns) == 0; ; {
		select {
		case err := <-done:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return -1, err
			}
			if !interrupted {
				return 0, fmt.Errorf("ended by itself; expected it to go on until it had printed %q", patterns)
			}
			return cmd.ProcessState.ExitCode(), nil
		case <-look.C:
			printed, _ := os.ReadFile(out)
			if !interrupted && !slices.ContainsFunc(patterns, func(p string) bool { return !regexp.MustCompile(`(?m)` + p).Match(printed) }) {
				interrupted = true
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
			}
		case <-limit:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-done
			return -1, fmt.Errorf("did not end within %s; expected %q", patience, patterns)
		}
	}
}
