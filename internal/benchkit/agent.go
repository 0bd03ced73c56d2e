package benchkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// task is what an agent, a process of its own, is to do: one of its fields.
type task struct {
	Produce *produceJob `json:",omitempty"`
	Receive *receiveJob `json:",omitempty"`
	Member  *memberJob  `json:",omitempty"`
	Reopen  *reopenJob  `json:",omitempty"`
	Memory  *memoryJob  `json:",omitempty"`
	Switch  *switchJob  `json:",omitempty"`
}

// message is a line that an agent prints.
type message struct {
	Ready     bool          `json:"ready,omitempty"`
	PerSecond float64       `json:"per_second,omitempty"`
	Count     int64         `json:"count,omitempty"`
	Took      time.Duration `json:"took,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"`
	Early     int64         `json:"early,omitempty"`
	Late      int64         `json:"late,omitempty"`
	Latency   sparse        `json:"latency"`
	Event     *event        `json:"event,omitempty"`
}

// Agent is the body of an agent on those stores: arg is its task, stdin tells it when to begin and
// to end.
func Agent(ctx context.Context, s Stores, arg string, stdin io.Reader, stdout io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(arg), &t); err != nil {
		return fmt.Errorf("the task of a bench agent: %w", err)
	}
	lines := bufio.NewScanner(stdin)
	out := json.NewEncoder(stdout)
	ready := func() error {
		if err := out.Encode(message{Ready: true}); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.New("the bench that started this agent is gone")
		}
		return nil
	}
	switch {
	case t.Produce != nil:
		m, err := t.Produce.run(ctx, s, ready)
		if err != nil {
			return err
		}
		return out.Encode(m)
	case t.Receive != nil:
		return t.Receive.run(ctx, s, lines, out)
	case t.Member != nil:
		return t.Member.run(ctx, s, lines, out)
	case t.Switch != nil:
		return t.Switch.run(ctx, s, lines, out)
	case t.Reopen != nil:
		return t.Reopen.run(ctx, func(m message) error { return out.Encode(m) }, func() { lines.Scan() })
	case t.Memory != nil:
		m, err := t.Memory.run(ctx)
		if err != nil {
			return err
		}
		return out.Encode(m)
	}
	return errors.New("a bench agent without a task")
}

// agent is a process that was started.
type agent struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *json.Decoder
	once  sync.Once
}

func (c *Common) startAgent(ctx context.Context, t task) (*agent, error) {
	arg, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, c.Command[0], append(c.Command[1:len(c.Command):len(c.Command)], string(arg))...)
	cmd.Env = c.environ()
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
		return nil, fmt.Errorf("start a bench agent: %w", err)
	}
	return &agent{cmd: cmd, stdin: stdin, lines: json.NewDecoder(stdout)}, nil
}

// next is the next line that the agent prints.
func (a *agent) next() (message, error) {
	var m message
	if err := a.lines.Decode(&m); err != nil {
		return m, fmt.Errorf("a bench agent ended early: %w", err)
	}
	return m, nil
}

func (a *agent) tell(line string) error {
	_, err := fmt.Fprintln(a.stdin, line)
	return err
}

// kill ends the process at once and reaps it.
func (a *agent) kill() {
	a.once.Do(func() {
		_ = a.cmd.Process.Kill() // it may have ended
		_ = a.cmd.Wait()         // killed is no news
	})
}
