package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/fault"
)

// bodyOf runs a body as the one of a command with this name.
func bodyOf(ctx context.Context, name string, timeout time.Duration, body func(context.Context, []string) error) (*app, error) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.global.timeout, a.global.log = timeout, "kafka://me:s3cret@h:1"
	root, cmd := &cobra.Command{Use: "ringfence"}, &cobra.Command{Use: name}
	root.AddCommand(cmd)
	cmd.SetContext(ctx)
	return a, a.do(body)(cmd, nil)
}

// A client library that does not heed its context keeps no command past its end.
func TestWithinEndsThoughAStoreDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		begun := time.Now()
		a, err := bodyOf(t.Context(), "list", time.Second, func(context.Context, []string) error { <-over; return nil })
		if d := time.Since(begun); d != time.Second+graceShort || a.exitCode(err) != fault.ExitTimeout {
			t.Errorf("after %s: %v, code %d; expected %s after --timeout, and %d", d, err, a.exitCode(err), graceShort, fault.ExitTimeout)
		}
		if !strings.Contains(err.Error(), "kafka://") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v; expected what it waited for, without the password", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { cancel(errSignalled) })
		begun := time.Now()
		_, err := bodyOf(ctx, "list", 0, func(context.Context, []string) error { <-over; return nil })
		if d := time.Since(begun); d != time.Hour+graceShort || !errors.Is(err, errSignalled) {
			t.Errorf("after %s: %v; expected %s after the signal", d, err, graceShort)
		}
	})
}

// What ends within its grace is not cut, and says itself how it went.
func TestWithinLetsACommandEndInOrder(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]time.Duration{"list": graceShort, "consume": graceDrain, "produce": graceDrain} {
		synctest.Test(t, func(t *testing.T) {
			done := false
			_, err := bodyOf(t.Context(), name, time.Second, func(ctx context.Context, _ []string) error {
				<-ctx.Done()
				time.Sleep(takes - time.Millisecond)
				done = true
				return nil
			})
			if err != nil || !done {
				t.Errorf("%s: %v, it was done: %t", name, err, done)
			}
		})
	}
}

// A service that is stopped while it starts has not failed; a job that is stopped is not done.
func TestInterruptedBeforeItBeganIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"consume": 0, "serve": 0, "tail": 0, "top": 0, "list": fault.ExitFailure, "produce": fault.ExitFailure, "demo": fault.ExitFailure} {
		for _, opening := range []error{context.Canceled, errSignalled} {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errSignalled)
			a, err := bodyOf(ctx, name, 0, func(context.Context, []string) error { return fmt.Errorf("open: %w", opening) })
			if code := a.exitCode(err); code != want {
				t.Errorf("%s: %v, code %d; expected %d", name, err, code, want)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errSignalled)
		a, err := bodyOf(ctx, name, 0, func(context.Context, []string) error { return fault.Conflict })
		if code := a.exitCode(err); code != fault.ExitConflict {
			t.Errorf("%s: %v, code %d; expected what else went wrong to be told", name, err, code)
		}
	}
}
