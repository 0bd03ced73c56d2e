package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/ringfence/ringfence/internal/history"
)

// ServeProcess is the body of a consumer process: it writes its history to a file, and after a
// SIGCONT it does what a process does that knows nothing of the time that went by.
func ServeProcess(outer context.Context, c MemberConfig, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	w := history.NewWriter(file)
	c.Tell = func(e history.Event) {
		if err := w.Add(e); err != nil {
			cancel(err) // a run without its history proves nothing
		}
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	var haunting sync.WaitGroup
	c.OnReady = func(haunt func(context.Context)) {
		haunting.Go(func() { // joined below
			for {
				select {
				case <-continued:
					haunt(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	err = RunMember(ctx, c)
	cause := context.Cause(ctx)
	cancel(nil)
	haunting.Wait()
	if !errors.Is(cause, context.Cause(outer)) { // the history could not be written
		err = errors.Join(err, cause)
	}
	return err
}
