package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Job is what a child process of a measurement does; as JSON it goes there.
type Job interface {
	// Run does it; the talk is with the process that started this one.
	Run(ctx context.Context, t *Talk) error
}

// task is a job on its way.
type task struct {
	Type string
	Job  any
}

func nameOf(job Job) string { return fmt.Sprintf("%T", job) }

// Talk is a child's side of the talk: it hears lines and says JSON.
type Talk struct {
	in  *bufio.Scanner
	out *json.Encoder
}

// Hear waits for the next line; false when the other process is gone.
func (t *Talk) Hear() (line string, ok bool) {
	ok = t.in.Scan()
	return t.in.Text(), ok
}

// Say says one thing.
func (t *Talk) Say(v any) error { return t.out.Encode(v) }

// Ready says so and waits for the start.
func (t *Talk) Ready() error {
	if err := t.Say(struct{}{}); err != nil {
		return err
	}
	if _, ok := t.Hear(); !ok {
		return errors.New("the process that started this one is gone")
	}
	return nil
}

// RunJob is the body of a child: it does the job that arg names, one of those known. What a known one
// holds that does not go as JSON is there for the job.
func RunJob(ctx context.Context, arg string, stdin io.Reader, stdout io.Writer, known ...Job) error {
	var name struct{ Type string }
	if err := json.Unmarshal([]byte(arg), &name); err != nil {
		return fmt.Errorf("the task of a child process: %w", err)
	}
	for _, job := range known {
		if nameOf(job) == name.Type {
			if err := json.Unmarshal([]byte(arg), &task{Job: job}); err != nil {
				return fmt.Errorf("the task of a child process: %w", err)
			}
			return job.Run(ctx, &Talk{in: bufio.NewScanner(stdin), out: json.NewEncoder(stdout)})
		}
	}
	return fmt.Errorf("a child process without a task: %q is not known", name.Type)
}

// Child is a process that does a job.
type Child struct {
	*Process
	in    io.WriteCloser
	out   *os.File
	lines *json.Decoder
	stop  func() bool
}

// StartChild starts a command, with the job as its last argument and variables added to the
// environment. It is killed when ctx ends.
func StartChild(ctx context.Context, command, env []string, job Job) (*Child, error) {
	arg, err := json.Marshal(task{Type: nameOf(job), Job: job})
	if err != nil {
		return nil, err
	}
	c := &Child{Process: newProcess(nameOf(job), command[0], append(command[1:len(command):len(command)], string(arg)), env)}
	out, in, err := os.Pipe() // no StdoutPipe: what was said before the end is to be heard after it
	if err != nil {
		return nil, err
	}
	c.out, c.lines = out, json.NewDecoder(out)
	c.cmd.Stdout, c.cmd.Stderr = in, os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		err = c.start()
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	c.stop = context.AfterFunc(ctx, func() { _ = c.Kill() }) // it may have ended
	return c, nil
}

// Hear waits for the next thing that it says.
func (c *Child) Hear(v any) error {
	if err := c.lines.Decode(v); err != nil {
		return fmt.Errorf("process %s ended early: %w", c.Name, err)
	}
	return nil
}

// Tell tells it a line.
func (c *Child) Tell(line string) error {
	_, err := fmt.Fprintln(c.in, line)
	return err
}

// Finish lets it end, by the end of what it hears, and waits for that.
func (c *Child) Finish() error {
	defer c.End()
	if err := c.in.Close(); err != nil {
		return err
	}
	<-c.Done()
	return c.Wait()
}

// End kills it, if it is still there, and waits for that.
func (c *Child) End() {
	c.stop()
	_ = c.Kill() // it may have ended
	<-c.Done()
	_ = c.out.Close() // its output has no reader any more
}
