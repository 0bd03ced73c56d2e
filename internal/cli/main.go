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
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/command"
	"github.com/ringfence/ringfence/internal/fault"
)

// Main runs the command line of the program name and returns its exit code; file: and mem: need no backend.
func Main(name string, backends []ringfence.Backend) int {
	if len(os.Args) == 2 && os.Args[1] == command.WatchName {
		return command.Watch(os.Stdin)
	}
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.name, a.backends, a.environ = name, backends, os.Environ()
	log.SetFlags(0)
	log.SetOutput(library{a})
	// A write to a closed pipe (| head) is an error, so that a consumer drains. Ignored, what --exec runs would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := a.untilSignalled(context.Background())
	defer stop()
	return a.run(ctx, os.Args[1:])
}

// errSignalled is why the context ended at a signal.
var errSignalled = errors.New("interrupted by a signal")

// echo is how long another signal counts as the same: timeout(1) and shells may signal a process and then its group.
const echo = 200 * time.Millisecond

// untilSignalled returns a context that the first SIGINT, SIGTERM or SIGHUP ends, so that the command drains; a second
// one quits at once, with the exit code of a killed process. SIGHUP comes more than once when a terminal goes (from the
// kernel, the shell and the session), so it is never the second one; nohup ignores it.
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
		slow := time.AfterFunc(time.Second, func() {
			if isTerminal(a.stderr) {
				fmt.Fprintln(a.stderr, "ringfence: what is under way finishes; a second signal quits at once")
			}
		})
		defer slow.Stop()
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
	if a.plugin && err != nil && !errors.Is(err, errReported) {
		return nagiosCodes[api.CheckUnknown]
	}
	if own := new(exitError); errors.As(err, &own) {
		return own.code
	}
	code := fault.ExitCode(err)
	if code == fault.ExitFailure && !a.running {
		return fault.ExitUsage // cobra refused the line before a command ran
	}
	return code
}
