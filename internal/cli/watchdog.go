package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/fault"
)

// How long a command may go on after --timeout or a signal: a client library may wait longer, whatever its context says.
const (
	// graceShort is that of a command that has only connections to end in order.
	graceShort = 2 * time.Second
	// graceDrain is that of one that has work in hand, besides what --drain-timeout grants it.
	graceDrain = time.Minute
)

// interrupted is the error of a command that a signal has ended; one that runs until a signal has done all of its work.
func interrupted(cmd *cobra.Command, err error) error {
	switch nameOf(cmd) {
	case "consume", "serve", "subscription run", "ring join", "tail", "top":
		return nil
	}
	if errors.Is(err, errSignalled) {
		return err
	}
	return errSignalled
}

// nameOf is what a command is called behind the name of the program.
func nameOf(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// grace is that of a command.
func grace(cmd *cobra.Command) time.Duration {
	name := nameOf(cmd)
	first, _, _ := strings.Cut(name, " ")
	switch {
	case cmd.Hidden, first == "verify", first == "demo", first == "bench":
	case name == "consume", name == "produce", name == "serve", name == "subscription run", name == "ring join", name == "topic mirror":
	default:
		return graceShort
	}
	drain, err := cmd.Flags().GetDuration("drain-timeout")
	if err != nil {
		drain = 0
	}
	return graceDrain + max(drain, 0)
}

// within runs a body until it returns, and leaves it to the end of the process when it goes on after ctx for so long.
func (a *app) within(ctx context.Context, grace time.Duration, body func() error) error {
	late, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { end(errAbandoned) }) })
	defer stop()
	_, err := readUntil(late, func() (struct{}, error) { return struct{}{}, body() })
	if errors.Is(err, errAbandoned) {
		return a.abandoned(ctx, grace)
	}
	return err
}

// errAbandoned is that a command did not end.
var errAbandoned = errors.New("it is left unfinished")

// abandoned is the error of a command that did not end.
func (a *app) abandoned(ctx context.Context, grace time.Duration) error {
	text := fmt.Errorf("%s later it was still working on %s: %w", grace, a.whereItWorks(), errAbandoned)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &exitError{fmt.Errorf("gave up after %s (--timeout); %w: %w", a.global.timeout, text, context.DeadlineExceeded), fault.ExitTimeout}
	}
	return fmt.Errorf("%w; %w", errSignalled, text)
}

// whereItWorks is where the commands work, without secrets.
func (a *app) whereItWorks() string {
	log, registry := shownURL(a.global.log, a.global.data), shownURL(a.global.registry, a.global.data)
	if log == registry {
		return log
	}
	return log + " and " + registry
}
