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

// OpenFile opens a file that a user named. For who writes to a FIFO it waits as long as ctx, whose
// cause is its error then; reading ends with Close. A device, which may have no end, is fault.Invalid,
// but for the null device and for what this process was given open and is named as that: /dev/stdin,
// and /dev/fd/N, as a shell calls what a command prints, <(command).
func OpenFile(ctx context.Context, path string) (*os.File, error) {
	if given(path) {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	err := CheckFile(path) // before it is opened: some devices do something then
	if errors.Is(err, errFIFO) {
		return openFIFO(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(path, info) // it may be another one by now
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openFIFO waits until somebody writes to a FIFO.
func openFIFO(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // joined below, unless the FIFO is gone meanwhile or not ours to write to
		f, err := os.Open(path)
		done <- opened{f, err}
	}()
	var o opened
	select {
	case o = <-done:
		return o.f, o.err
	case <-ctx.Done():
	}
	writer, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0) // ends the wait, also one that is about to begin
	if err == nil {
		o = <-done
		_ = writer.Close()
		if o.f != nil {
			_ = o.f.Close()
		}
	}
	return nil, fmt.Errorf("%s: nobody writes to it: %w", path, context.Cause(ctx))
}

var errFIFO = fmt.Errorf("a FIFO; expected a file: %w", fault.Invalid)

// given tells the names of what is open in this process.
func given(path string) bool {
	path = filepath.Clean(path)
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// CheckFile looks at a file that somebody else will open, and wait for: what is none, a FIFO or a device
// among it, is fault.Invalid.
func CheckFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkFile(path, info)
}

func checkFile(path string, info fs.FileInfo) error {
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

// ReadFile reads a file that the settings name, such as a CA. One of more than limits.SettingsFileBytes
// is an error, and so is what is no regular file.
func ReadFile(path string) ([]byte, error) {
	if err := CheckFile(path); err != nil { // also of what was given open: nobody waits for it here
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(context.Background(), f)
}

// ReadAll reads what OpenFile has opened. From a pipe it reads no longer than ctx.
func ReadAll(ctx context.Context, f *os.File) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // of a file it fails, and is not needed
	defer stop()
	text, err := io.ReadAll(io.LimitReader(f, limits.SettingsFileBytes+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s gave no end: %w", f.Name(), context.Cause(ctx))
	}
	if err == nil && len(text) > limits.SettingsFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", f.Name(), limits.SettingsFileBytes)
	}
	return text, err
}
