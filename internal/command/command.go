// Package command processes records by running a command for each. Nothing of a command goes on beside the
// next attempt at its record: not after a failure, not after the partition was lost, and not after this
// process was killed.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
)

// Runner processes a record by running a command.
type Runner struct {
	Command string   // for sh -c
	Environ []string // of the command, besides what names the record
	Stdout  io.Writer
	Stderr  io.Writer
	Logger  *slog.Logger
	Running *Children
}

// prefix begins the variables that name a record. A flag's differs: a ringfence must not take the key for its --key.
const prefix = "RINGFENCE_RECORD_"

// Children are the commands that run now, for a process that quits without a clean end.
type Children struct {
	mu    sync.Mutex
	busy  int // commands that are about to start, run, or are being ended
	count int // of all that were started
	watch watch
	pids  sync.Map // of those that run
}

// begin is called before a command starts, and end when nothing of it is to go on. It returns the mark of the command.
func (c *Children) begin() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark, err := c.guarded()
	if err != nil {
		return "", err
	}
	c.busy++
	c.count++
	return mark + "." + strconv.Itoa(c.count), nil
}

func (c *Children) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
}

// Kill ends all of them, with what they had started.
func (c *Children) Kill() {
	c.pids.Range(func(pid, _ any) bool {
		killGroup(pid.(int))
		return true
	})
}

// grace is how long a command whose partition was lost has between SIGTERM and SIGKILL.
const grace = 2 * time.Second

// Process runs the command with the record on stdin. The command ends with ctx: it must not go on beside that of the
// partition's new owner. After a failure all that it started ends too; what a success leaves running goes on.
func (x *Runner) Process(ctx context.Context, m *ringfence.Message) error {
	err := x.run(ctx, m)
	if err == nil {
		return nil
	}
	return fmt.Errorf("command for partition %d offset %d: %w", m.Partition, m.Offset, err)
}

// run is Process without what is said of a failure.
func (x *Runner) run(ctx context.Context, m *ringfence.Message) error {
	line, err := m.Record().Line()
	if err != nil {
		return err
	}
	mark, err := x.Running.begin()
	if err != nil {
		return notBegunError{err}
	}
	defer x.Running.end()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", x.Command)
	cmd.Stdin = bytes.NewReader(line)
	cmd.Stdout, cmd.Stderr = x.Stdout, x.Stderr
	cmd.Env = append(append([]string{}, x.Environ...), recordEnviron(m)...)
	cmd.Env = append(cmd.Env, mark)
	// A group of its own, so that Ctrl-C on a terminal drains this process and does not end what it waits for. And the
	// kernel ends the command with the thread that started it, which Go keeps as long as this process; what the
	// command has started, Watch ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return notBegunError{err}
	}
	x.Running.pids.Store(cmd.Process.Pid, nil)
	err = cmd.Wait()
	x.Running.pids.Delete(cmd.Process.Pid)
	if ctx.Err() != nil || err != nil {
		killGroup(cmd.Process.Pid)
		if !endMarked(mark) {
			x.Logger.Warn("what a command has started does not end, and may go on beside the next attempt", "partition", m.Partition, "offset", m.Offset, "after", killTime)
		}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = fmt.Errorf("it ended, and %s later what it had started still held its output: redirect that, or wait for it: %w", grace, err)
	}
	return err
}

// notBegunError is the error of a command that the host has no process, descriptor or memory for. No record causes
// that, so a subscription counts no attempt and waits.
type notBegunError struct{ error }

// NotRunnable tells whether err is that of a command which the shell could not find, or not run.
func NotRunnable(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && (exit.ExitCode() == 126 || exit.ExitCode() == 127)
}

// NotBegun makes err one that no record caused.
func NotBegun(err error) error { return notBegunError{err} }

// Outage is for shard.IsOutage.
func (notBegunError) Outage() bool { return true }

// Unreached is for shard.IsUnreached. What is too long may be the key of just this record.
func (e notBegunError) Unreached() bool { return !errors.Is(e.error, syscall.E2BIG) }

// Unwrap is for errors.Is.
func (e notBegunError) Unwrap() error { return e.error }

// recordEnviron names a record to the command.
func recordEnviron(m *ringfence.Message) []string {
	env := []string{
		prefix + "TOPIC=" + m.Topic,
		prefix + "STORAGE=" + strconv.Itoa(m.Storage),
		prefix + "PARTITION=" + strconv.Itoa(m.Partition),
		prefix + "OFFSET=" + strconv.FormatInt(m.Offset, 10),
		prefix + "EPOCH=" + strconv.FormatInt(m.Epoch, 10),
		prefix + "TOKEN=" + m.Token(),
		prefix + "ATTEMPT=" + strconv.Itoa(m.Attempt),
		prefix + "TIMESTAMP=" + string(api.TimeOf(m.Timestamp)),
	}
	if m.Key != nil && bytes.IndexByte(m.Key, 0) < 0 {
		env = append(env, prefix+"KEY="+string(m.Key))
	}
	return env
}
