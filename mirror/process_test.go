package mirror_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/registry/pgregistry"
)

// asProgram makes the test binary the ringfence program.
const asProgram = "MIRROR_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main("ringfence", []ringfence.Backend{
			{Scheme: "kafka", OpenLog: kafkalog.OpenURL},
			{Scheme: "postgres", OpenRegistry: pgregistry.OpenURL},
		}))
	}
	goleak.VerifyTestMain(m)
}

// process is a ringfence program that runs.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout bytes.Buffer // may be read once it is done
	stderr bytes.Buffer
	done   chan struct{} // closed when it ended
}

// begin starts ringfence. What it prints goes to a file when there is one.
func begin(t *testing.T, out *os.File, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], args...), done: make(chan struct{})}
	for _, kv := range os.Environ() { // a setting of the machine must not change what it does
		if !strings.HasPrefix(kv, "RINGFENCE_") {
			p.cmd.Env = append(p.cmd.Env, kv)
		}
	}
	p.cmd.Env = append(p.cmd.Env, asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if out != nil {
		p.cmd.Stdout = out
	}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must(t, p.cmd.Start())
	go func() { // ends with the process, which Cleanup waits for
		defer close(p.done)
		_ = p.cmd.Wait() // the code is read from its state
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		<-p.done
	})
	return p
}

// end waits for the end, which has to come with an exit code, and returns what was printed.
func (p *process) end(code int) string {
	p.t.Helper()
	<-p.done
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("ringfence %s: exit code %d; expected %d\n%s%s", strings.Join(p.cmd.Args[1:], " "), got, code, p.stdout.String(), p.stderr.String())
	}
	return p.stdout.String()
}

// stop asks for a clean end.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		p.t.Fatalf("ringfence %s: %v\n%s", strings.Join(p.cmd.Args[1:], " "), err, p.stderr.String())
	}
	p.end(0)
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	<-p.done
}

// run is a command that has to succeed.
func run(t *testing.T, args ...string) string {
	t.Helper()
	return begin(t, nil, args...).end(0)
}
