package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The writer of a FIFO may never come: --timeout and a signal end the wait.
func TestFIFOIsWaitedForNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	fifo := func() string {
		name := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // the command's wait goes on until a writer comes
			if w, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
				_ = w.Close()
			}
		})
		return name
	}
	if code, _, stderr := runLine(t, "topic", "create", "t", "--data", data); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range [][]string{
		{"produce", "t", "--file", fifo(), "--data", data},
		{"topic", "list", "--config", fifo(), "--data", data},
		{"apply", "--file", fifo(), "--data", data},
		{"subscription", "dead-letters", "edit", "s", "0.0.0.0", "--value-file", fifo(), "--data", data},
	} {
		if code, _, stderr := runLine(t, append(args, "--timeout", "100ms")...); code != 124 || !strings.Contains(stderr, "--timeout") {
			t.Errorf("%v: exit code %d and %q", args, code, stderr)
		}
	}
}

// What a shell gives for <(command) is read, and waited for only as long as was asked for.
func TestProduceReadsAPipeOfTheShell(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := runLine(t, "topic", "create", "t", "--data", data); code != 0 {
		t.Fatal(stderr)
	}
	pipe := func(text string) (path string, write *os.File) {
		t.Helper()
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(from.Close(), to.Close()) })
		if _, err := io.WriteString(to, text); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("/proc/self/fd/%d", from.Fd()), to
	}
	for text, flag := range map[string]string{"one\ntwo\n": "--file", "durability: os\n": "--config"} {
		args := []string{"produce", "t", "--data", data, flag}
		path, write := pipe(text)
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := runLine(t, append(args, path)...); code != 0 {
			t.Errorf("%s: exit code %d and %q", flag, code, stderr)
		}
		path, _ = pipe("")
		if code, _, stderr := runLine(t, append(args, path, "--timeout", "100ms")...); code != 124 || !strings.Contains(stderr, "--timeout") {
			t.Errorf("%s without an end: exit code %d and %q; expected a time-out", flag, code, stderr)
		}
		ctx, signal := context.WithCancelCause(t.Context())
		signal(errSignalled)
		var stdout, stderr strings.Builder
		if code := newApp(strings.NewReader(""), &stdout, &stderr).run(ctx, append(args, path)); code != 1 {
			t.Errorf("%s without an end, and a signal: exit code %d and %q", flag, code, &stderr)
		}
	}
	if _, stdout, stderr := runLine(t, "topic", "describe", "t", "--data", data, "--format", "json"); !strings.Contains(stdout, `"kept": 2,`) {
		t.Errorf("%q and %q; expected the two records", stdout, stderr)
	}
}
