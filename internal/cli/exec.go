package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/document"
)

// execRunner processes a record by running a command.
type execRunner struct {
	command string
	environ []string
	stdout  io.Writer
	stderr  io.Writer
	logger  *slog.Logger
	running *children
	decides bool // the policy of a subscription says what becomes of a record that failed
}

// withoutKey is an environment without the key of another record: that of a command which runs this process.
// The other variables of a record are set for each one, and a record may have no key.
func withoutKey(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return strings.HasPrefix(kv, recordKey+"=") })
}

// withoutStores is an environment without the URLs of the stores, which hold passwords.
func withoutStores(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == envName("log") || name == envName("registry")
	})
}

// children are the commands that run now, for a process that quits without a clean end.
type children struct {
	mu    sync.Mutex
	busy  int // commands that are about to start, run, or are being ended
	count int // of all that were started
	pids  map[int]bool
	watch watch
}

// begin is called before a command starts, and end when nothing of it is to go on. It returns the
// variable that marks the command and what it starts.
func (c *children) begin() (string, error) {
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

func (c *children) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
}

func (c *children) add(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pids == nil {
		c.pids = make(map[int]bool)
	}
	c.pids[pid] = true
}

func (c *children) remove(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pids, pid)
}

// kill ends all of them, with what they had started.
func (c *children) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid := range c.pids {
		killGroup(pid)
	}
}

// execGrace is how long a command whose partition was lost has between SIGTERM and SIGKILL.
const execGrace = 2 * time.Second

// process runs the command with the record on stdin. It ends with ctx: the partition is lost
// then, and the command must not go on beside that of the new owner. When it has failed, nothing that it
// has started goes on beside the next attempt, or after the record was given up; what a command leaves
// that passed for done goes on.
func (x *execRunner) process(ctx context.Context, m *ringfence.Message) error {
	line, err := document.RecordLine(m)
	if err != nil {
		return err
	}
	mark, err := x.running.begin()
	if err != nil {
		return err
	}
	defer x.running.end()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", x.command)
	cmd.Stdin = bytes.NewReader(line)
	cmd.Stdout, cmd.Stderr = x.stdout, x.stderr
	cmd.Env = append(append([]string{}, x.environ...), recordEnviron(m)...)
	cmd.Env = append(cmd.Env, mark)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return endGroup(cmd.Process.Pid) }
	cmd.WaitDelay = execGrace
	if err = cmd.Start(); err == nil {
		x.running.add(cmd.Process.Pid)
		err = cmd.Wait()
		x.running.remove(cmd.Process.Pid)
		if ctx.Err() != nil || err != nil {
			killGroup(cmd.Process.Pid)
			if !endMarked(mark) {
				x.logger.Warn("what a command has started does not end, and may go on beside the next attempt", "partition", m.Partition, "offset", m.Offset, "after", killTime)
			}
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = fmt.Errorf("it ended, and %s later what it had started still held its output: redirect that, or wait for it: %w", execGrace, err)
	}
	err = fmt.Errorf("command for partition %d offset %d: %w", m.Partition, m.Offset, err)
	if ctx.Err() == nil {
		told := x.logger.With("partition", m.Partition, "offset", m.Offset, "attempt", m.Attempt, "error", err)
		if x.decides { // by the policy it may be a dead letter
			told.Warn("record failed")
		} else {
			told.Warn("record failed; it is tried again")
		}
	}
	return err
}

// recordKey names the key of a record to a command.
const recordKey = envPrefix + "RECORD_KEY"

// recordEnviron names a record to the command. The prefix differs from that of the flags, so
// that a ringfence run by the command does not take the record's key for its --key.
func recordEnviron(m *ringfence.Message) []string {
	const p = envPrefix + "RECORD_"
	env := []string{
		p + "TOPIC=" + m.Topic,
		p + "STORAGE=" + strconv.Itoa(m.Storage),
		p + "PARTITION=" + strconv.Itoa(m.Partition),
		p + "OFFSET=" + strconv.FormatInt(m.Offset, 10),
		p + "EPOCH=" + strconv.FormatInt(m.Epoch, 10),
		p + "ATTEMPT=" + strconv.Itoa(m.Attempt),
		p + "TIMESTAMP=" + document.Time(m.Timestamp.UnixMilli()),
	}
	if m.Key != nil && bytes.IndexByte(m.Key, 0) < 0 {
		env = append(env, recordKey+"="+string(m.Key))
	}
	return env
}
