package command

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// With a killed process the kernel ends its commands (see Runner), but nothing that these have started. So a second
// process waits at the end of a pipe, which closes with the first one, and then ends all that has its mark in the
// environment, in whatever group or session.

const (
	// WatchName is the command line of the process that waits: a program that runs commands calls [Watch]
	// when it is started with that alone.
	WatchName = "watch-exec"
	// watchMark is the variable that marks the commands and what they start.
	watchMark = prefix + "WATCH"
	// watchDone is what is said before a clean end: what commands left running on purpose may go on then.
	watchDone = "done\n"
	// killTime is for how long what does not die is killed again.
	killTime = 10 * time.Second
	// releaseTime is for how long a clean end waits for the process that waits.
	releaseTime = 2 * time.Second
)

// watch is the process that waits for the end of this one.
type watch struct {
	mark  string
	pipe  *os.File
	pid   int
	kill  func() error
	ended chan struct{}
}

// guarded starts the process that waits, unless it runs, and returns the mark of commands. The caller holds the lock.
func (c *Children) guarded() (string, error) {
	if c.watch.ended != nil {
		select {
		case <-c.watch.ended: // it was killed
			_ = c.watch.pipe.Close()
		default:
			return c.watch.mark, nil
		}
	}
	if c.watch.mark == "" {
		c.watch.mark = watchMark + "=" + rand.Text()
	}
	from, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer from.Close()
	cmd := exec.Command("/proc/self/exe", WatchName) //nolint:noctx // it outlives every context
	cmd.Args[0] = "ringfence"
	cmd.Env = []string{} // nothing of it is needed, and our mark must not be in it
	cmd.Stdin = from
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what is typed on the terminal is not for it
	if err = cmd.Start(); err == nil {
		_, err = fmt.Fprintf(to, "%s %d\n", c.watch.mark, unix.Getpgrp())
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("start what watches over commands: %w", err), to.Close())
	}
	c.watch.pipe, c.watch.pid, c.watch.kill, c.watch.ended = to, cmd.Process.Pid, cmd.Process.Kill, make(chan struct{})
	go func(ended chan struct{}) { // joined by release
		_ = cmd.Wait()
		close(ended)
	}(c.watch.ended)
	return c.watch.mark, nil
}

// Release ends the process that waits: no command runs any more. Where one does, because its runner was
// left behind, that process hears no farewell, and ends the commands.
func (c *Children) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watch.ended == nil {
		return nil
	}
	if c.busy == 0 {
		_, _ = c.watch.pipe.WriteString(watchDone) // gone already: fine
	}
	_ = c.watch.pipe.Close()
	select {
	case <-c.watch.ended:
		c.watch.ended = nil
		return nil
	case <-time.After(releaseTime):
		return fmt.Errorf("process %d (%s), which ends commands that still run, is not done after %s", c.watch.pid, WatchName, releaseTime)
	}
}

// Watch is the process that waits; in is its standard input. It returns the exit code.
func Watch(in io.Reader) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	said, _ := io.ReadAll(in)
	line, rest, _ := strings.Cut(string(said), "\n")
	mark, group, _ := strings.Cut(line, " ")
	spared, err := strconv.Atoi(group) // the group that the dead process was in
	if err != nil || !strings.HasPrefix(mark, watchMark+"=") || rest == watchDone {
		return 0
	}
	endMarked(mark, spared)
	return 0
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // gone already: fine

// endMarked kills what has a mark until two looks find nothing, and says whether that came: a look may miss a new process.
func endMarked(mark string, spared ...int) bool {
	quiet := 0
	for end := time.Now().Add(killTime); quiet < 2 && time.Now().Before(end); {
		if quiet++; killMarked(mark, append(spared, unix.Getpgrp())) {
			quiet = 0
			time.Sleep(time.Millisecond)
		}
	}
	return quiet == 2
}

// killMarked kills each process with a mark, and its group unless that is spared, and says whether there was any.
func killMarked(mark string, spared []int) bool {
	found := false
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0) // or the number could be another process by the time it is killed
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(kv []byte) bool { return string(kv) == mark || bytes.HasPrefix(kv, []byte(mark+".")) }) {
			found = true
			if group, err := unix.Getpgid(pid); err == nil && !slices.Contains(spared, group) && group > 1 {
				killGroup(group)
			}
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
	return found
}
