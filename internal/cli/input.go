package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ringfence/ringfence/internal/fault"
)

// readInput reads a file that the user named, of at most so many bytes: "-" is stdin, where a terminal shows what is
// asked for. A pipe may have no end, and nothing calls a read of it off: it takes as long as ctx.
func (a *app) readInput(ctx context.Context, path string, most int, asked string) ([]byte, error) {
	if path == "-" && isTerminal(a.stdin) {
		fmt.Fprintln(a.stderr, asked+"; Ctrl-D ends it")
	}
	raw, err := readUntil(ctx, func() ([]byte, error) {
		in := a.stdin
		if path != "-" {
			f, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			in = f
		}
		return io.ReadAll(io.LimitReader(in, int64(most)+1))
	})
	switch {
	case err == nil && len(raw) > most:
		return nil, fmt.Errorf("%s is longer than %d bytes: %w", path, most, fault.Invalid)
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s did not end: %w", path, err)
	}
	return raw, inputError(err)
}

// inputError is an error of a file that the user named.
func inputError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("input: %w: %w", err, fault.NotFound)
	}
	return fmt.Errorf("input: %w: %w", err, fault.Invalid)
}

// readUntil reads until that returns or ctx ends: then the read, which can't be called off, is left to the process's end.
func readUntil[T any](ctx context.Context, read func() (T, error)) (got T, err error) {
	type answer struct {
		got T
		err error
	}
	done := make(chan answer, 1)
	go func() { // joined here, or ends with the process
		got, err := read()
		done <- answer{got, err}
	}()
	select {
	case a := <-done:
		return a.got, a.err
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
}
