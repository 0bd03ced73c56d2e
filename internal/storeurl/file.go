package storeurl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// OpenFile opens a file that the user named. It waits for the writer of a FIFO as long as ctx, whose cause is
// its error then; reading ends with Close. A device, which may have no end, is fault.Invalid. Exceptions are
// the null device, and files that the process was given open: /dev/stdin and /dev/fd/N, as a shell names the
// output of a command, <(command).
func OpenFile(ctx context.Context, path string) (*os.File, error) {
	if given(path) {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	f, err := open(path)
	if errors.Is(err, errFIFO) {
		return openFIFO(ctx, path)
	}
	return f, err
}

// open opens a regular file, or the null device.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkKind(path, info); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// openFIFO waits for the writer of a FIFO.
func openFIFO(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // joined below, unless the FIFO is gone by then or not writable
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOCTTY, 0)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
	}
	if writer, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil { // ends the wait
		o := <-done
		_ = writer.Close()
		if o.f != nil {
			_ = o.f.Close()
		}
	}
	return nil, fmt.Errorf("%s: a FIFO without a writer: %w", path, context.Cause(ctx))
}

var errFIFO = fmt.Errorf("a FIFO; expected a file: %w", fault.Invalid)

// given reports whether a path names a file that this process was given open.
func given(path string) bool {
	path = filepath.Clean(path)
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// checkKind fails with fault.Invalid for what is no regular file.
func checkKind(path string, info fs.FileInfo) error {
	var kind string
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s is %w", path, errFIFO)
	case mode&fs.ModeDevice != 0:
		if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
			return nil
		}
		kind = "a device"
	default:
		kind = "no file"
	}
	return fmt.Errorf("%s is %s; expected a file: %w", path, kind, fault.Invalid)
}

// ReadFile reads a file that the settings name, such as a CA: a regular one of at most
// limits.SettingsFileBytes.
func ReadFile(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(context.Background(), f)
}

// ReadAll reads a file that OpenFile opened. It reads from a pipe no longer than ctx.
func ReadAll(ctx context.Context, f *os.File) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // fails for a regular file, which needs none
	defer stop()
	text, err := io.ReadAll(io.LimitReader(f, limits.SettingsFileBytes+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s did not end: %w", f.Name(), context.Cause(ctx))
	}
	if err == nil && len(text) > limits.SettingsFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", f.Name(), limits.SettingsFileBytes)
	}
	return text, err
}
