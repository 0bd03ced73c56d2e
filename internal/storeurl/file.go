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
	f, _, err := open(path)
	if errors.Is(err, errFIFO) {
		return openFIFO(ctx, path)
	}
	return f, err
}

// open opens a regular file, or the null device. What is judged is what is open: what has the name may be
// another one by then, or soon.
func open(path string) (*os.File, fs.FileInfo, error) {
	return openBy(path, func() (*os.File, error) {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // by now it may be one that would be waited for
	})
}

func openBy(path string, opening func() (*os.File, error)) (*os.File, fs.FileInfo, error) {
	if err := CheckFile(path); errors.Is(err, fault.Invalid) { // before it is opened: some devices do something then
		return nil, nil, err
	}
	f, err := opening()
	if err != nil {
		return nil, nil, err
	}
	file, err := f.Stat()
	if err == nil {
		err = checkFile(path, file)
	}
	if err == nil && madeUp(f) {
		err = fmt.Errorf("%s is made up by the kernel; expected a file: %w", path, fault.Invalid)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, file, nil
}

// openFIFO waits until somebody writes to a FIFO.
func openFIFO(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // joined below, unless the FIFO is gone meanwhile or not ours to write to
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOCTTY, 0)
		done <- opened{f, err}
	}()
	var o opened
	select {
	case o = <-done:
		if o.err != nil {
			return nil, o.err
		}
		info, err := o.f.Stat()
		if err == nil {
			err = checkFile(path, info)
		}
		if err == nil || errors.Is(err, errFIFO) {
			return o.f, nil
		}
		return nil, errors.Join(err, o.f.Close()) // another one has the name by now
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
	f, _, err := open(path) // also of what was given open: nothing waits for it here
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
