// Package cli is the command line of Ringfence: topics, producers, consumers and groups in a
// directory or on the stores that URLs name. Data goes to stdout; logs and progress to stderr.
// Programs differ in the stores that they know: see cmd/ringfence.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/command"
	"github.com/ringfence/ringfence/internal/fault"
)

// Main runs the command line of this process and returns its exit code. The program is called name
// and knows the stores of backends besides file: and mem:, which the library brings along.
func Main(name string, backends []ringfence.Backend) int {
	if len(os.Args) == 2 && os.Args[1] == command.WatchName {
		return command.Watch(os.Stdin)
	}
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.name, a.backends, a.environ = name, backends, os.Environ()
	log.SetFlags(0)
	log.SetOutput(library{a})
	// A reader that went away (| head) is an error of a write, so that a consumer can drain. The
	// signal is caught and not ignored: what --exec runs would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := a.untilSignalled(context.Background())
	defer stop()
	return a.run(ctx, os.Args[1:])
}

// errSignalled is why the context ended at a signal.
var errSignalled = errors.New("interrupted by a signal")

// echo is for how long after a signal another one is taken for the same: timeout(1) signals a
// process and then its group, and a shell may pass on what the terminal has sent to both.
const echo = 200 * time.Millisecond

// untilSignalled returns a context that the first SIGINT, SIGTERM or SIGHUP ends, so that the command
// drains; a second one quits at once, with the exit code of a killed process. SIGHUP says that the
// terminal is gone, often more than once (from the kernel, the shell and the session), so it is never
// the second one; under nohup, which ignores it, the command goes on without a terminal.
func (a *app) untilSignalled(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() { // joined by stop
		defer close(done)
		if _, ok := <-signals; !ok {
			return
		}
		cancel(errSignalled)
		first := time.Now()
		second, ok := <-signals
		for ok && (second == syscall.SIGHUP || time.Since(first) < echo) {
			second, ok = <-signals
		}
		if !ok {
			return
		}
		a.children.Kill()
		soon, end := context.WithTimeout(context.Background(), time.Second)                              // a terminal may take nothing any more
		_, _ = readUntil(soon, func() (struct{}, error) { a.screen.giveBack(); return struct{}{}, nil }) // it ends anyway
		end()
		fmt.Fprintln(a.stderr, "ringfence: second signal: quitting without a clean end")
		code := 128
		if n, ok := second.(syscall.Signal); ok {
			code += int(n)
		}
		os.Exit(code)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel(nil)
	}
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// exitCode is the code of the contract for what a command returned.
func (a *app) exitCode(err error) int {
	if own := new(exitError); errors.As(err, &own) {
		return own.code
	}
	code := fault.ExitCode(err)
	if code == fault.ExitFailure && !a.running {
		return fault.ExitUsage // cobra refused the line before a command ran
	}
	return code
}
