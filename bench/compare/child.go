package compare

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
)

// ChildVariable in the environment makes the program one of the processes of a measurement: it
// calls Child and exits.
const ChildVariable = "RINGFENCE_BENCH_CHILD"

// job is what a child process is told.
type job struct {
	Role       string
	Peer       string
	Dir        string
	URL        string // of a server that runs already
	Durability peer.Durability
	Size       int
	Records    int64
	Rate       int
	Turn       time.Duration
}

// answer is one line of what a child process says.
type answer struct {
	Ready   bool          `json:",omitempty"`
	URL     string        `json:",omitempty"`
	Count   int64         `json:",omitempty"`
	Elapsed time.Duration `json:",omitempty"`
	P50     time.Duration `json:",omitempty"`
	P99     time.Duration `json:",omitempty"`
}

// Child does the job of a child process, answers on out, and ends with ctx or when in closes.
func Child(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("%s: %w", ChildVariable, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends when the parent goes, whatever way it goes; the process ends right after
		io.Copy(io.Discard, in) //nolint:errcheck // the end of the input is the message
		cancel()
	}()
	say := func(a answer) error { return json.NewEncoder(out).Encode(a) }
	switch j.Role {
	case roleServe:
		return serveNATS(ctx, j, say)
	case roleProduce:
		return produceAtRate(ctx, j, say)
	case roleConsume:
		return consumeAndTime(ctx, j, say)
	case roleFill:
		return fillForever(ctx, j, say)
	case roleReopen:
		return reopen(ctx, j, say)
	}
	return fmt.Errorf("unknown role %q", j.Role)
}

// child is a running child process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	role  string
}

// spawn starts this program again as a child.
func spawn(ctx context.Context, j job) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), ChildVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout), role: j.Role}, nil
}

// hear waits for the child's next answer.
func (c *child) hear() (answer, error) {
	var a answer
	if !c.lines.Scan() {
		return a, fmt.Errorf("the %s process ended without an answer: %w", c.role, errors.Join(c.lines.Err(), io.ErrUnexpectedEOF))
	}
	err := json.Unmarshal(c.lines.Bytes(), &a)
	return a, err
}

// stop lets the child end and waits for it.
func (c *child) stop() error {
	return errors.Join(c.stdin.Close(), c.cmd.Wait())
}

// kill is kill -9.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
