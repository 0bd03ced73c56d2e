package storeurl

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

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// A FIFO would be waited for, a device has no end, and a file may be too long.
func TestWhatIsNoFileIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	fifo, long := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "long")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(long, nil, 0o600), os.Truncate(long, limits.SettingsFileBytes+1)); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{fifo: "is a FIFO", "/dev/zero": "is a device", t.TempDir(): "is a directory", long: "longer than"} {
		for _, files := range [][3]string{{path, "", ""}, {"", path, path}} {
			_, err := LoadTLS(files[0], files[1], files[2], TLSNames{CA: "ca", Cert: "cert", Key: "key"}, false)
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v; expected that it %s", files, err, says)
			}
		}
		if path == long || path == fifo {
			continue
		}
		if f, err := OpenFile(t.Context(), path); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; expected that it %s", path, err, says)
			if f != nil {
				_ = f.Close()
			}
		}
	}
	if text, err := ReadFile(os.DevNull); err != nil || len(text) > 0 {
		t.Errorf("the null device: %q, %v", text, err)
	}
	if _, err := OpenFile(t.Context(), fifo+"x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Who has a FIFO made for a file waits for its writer, who may never come.
func TestAFIFOIsWaitedForAsLongAsTheContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := OpenFile(ctx, path); !errors.Is(err, why) {
		t.Errorf("%v; expected that the wait ends with its context", err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("text"), 0o600) }() // joined below
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := ReadAll(t.Context(), f); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// A shell gives what a command prints as an open pipe, which may stay open for ever.
func TestAPipeThatWasGivenIsReadForAsLongAsTheContext(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", from.Fd())
	if _, err := ReadFile(path); !errors.Is(err, fault.Invalid) {
		t.Errorf("%v; expected that nobody waits for a pipe without a context", err)
	}
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := ReadAll(ctx, f); !errors.Is(err, why) {
		t.Errorf("%v; expected that reading ends with its context", err)
	}

	g, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := io.WriteString(to, "text"); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadAll(t.Context(), g); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}
