package command

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/subscription/shard"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
)

// When a partition is lost its command must not go on beside that of the new owner, nor may what
// the command has started.
func TestRunnerEndsTheWholeCommandWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancelCause(t.Context())
	lost := errors.New("the partition is lost")
	out := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "begun") {
			lose(lost)
		}
		return len(p), nil
	})
	x := &Runner{Command: "sleep 1000 & echo begun; wait", Stdout: out, Stderr: io.Discard, Logger: slog.New(slog.DiscardHandler), Running: &Children{}}
	released(t, x.Running)
	began := time.Now()
	if err := x.Process(ctx, &ringfence.Message{Value: []byte("v")}); err == nil {
		t.Error("a command that was cut off passed for done")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s to end the command", took)
	}
	x.Running.pids.Range(func(pid, _ any) bool {
		t.Errorf("%v is still noted as running", pid)
		return true
	})
}

// released ends what watches over the commands of a test.
func released(t *testing.T, c *Children) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Release(); err != nil {
			t.Error(err)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRunnerFailsWithTheCommand(t *testing.T) {
	t.Parallel()
	x := &Runner{Command: "exit 3", Stdout: io.Discard, Stderr: io.Discard, Running: &Children{}}
	released(t, x.Running)
	err := x.Process(t.Context(), &ringfence.Message{Partition: 4, Offset: 17, Attempt: 2})
	if err == nil || !strings.Contains(err.Error(), "partition 4 offset 17: exit status 3") {
		t.Errorf("error %v", err)
	}
}

// No record is to blame that the host has no process for its command, but that its key is too long for one.
func TestRunnerTellsAnOutageWhenACommandCantStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variable  string
		unreached bool
	}{{"A=\x00", true}, {"A=" + strings.Repeat("a", 1<<20), false}} {
		x := &Runner{Command: "true", Environ: []string{c.variable}, Stdout: io.Discard, Stderr: io.Discard, Logger: slog.New(slog.DiscardHandler), Running: &Children{}}
		released(t, x.Running)
		err := x.Process(t.Context(), &ringfence.Message{})
		if err == nil || !shard.IsOutage(err) || shard.IsUnreached(err) != c.unreached {
			t.Errorf("a variable of %d bytes: %v; outage %t, unreached %t", len(c.variable), err, shard.IsOutage(err), shard.IsUnreached(err))
		}
	}
}

// Without a descriptor for the process that watches over commands none is started, and no attempt of that
// may pass unheard. It is not parallel: the limit is that of all the process.
func TestRunnerTellsACommandWithoutAWatch(t *testing.T) {
	var log testlog.Buffer
	x := &Runner{Command: "true", Stdout: io.Discard, Stderr: io.Discard, Logger: log.Logger(), Running: &Children{}}
	released(t, x.Running)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	err := x.Process(t.Context(), &ringfence.Message{Partition: 4, Offset: 17, Attempt: 2})
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); again != nil {
		t.Fatal(again)
	}
	if !errors.Is(err, unix.EMFILE) || !shard.IsUnreached(err) || !strings.Contains(err.Error(), "partition 4 offset 17") {
		t.Errorf("error %v; expected one that names the record and the limit", err)
	}
	if err := x.Process(t.Context(), &ringfence.Message{}); err != nil {
		t.Errorf("with descriptors again: %v", err)
	}
}

func TestRecordEnvironmentHasNoKeyThatItCannotHold(t *testing.T) {
	t.Parallel()
	has := func(key []byte, want string) {
		env := recordEnviron(&ringfence.Message{Topic: "t", Key: key, Epoch: 7})
		if !slices.Contains(env, "RINGFENCE_RECORD_EPOCH=7") {
			t.Errorf("no epoch in %q", env)
		}
		got := ""
		for _, kv := range env {
			if strings.HasPrefix(kv, "RINGFENCE_RECORD_KEY") {
				got = kv
			}
		}
		if got != want {
			t.Errorf("key %q is %q in the environment; expected %q", key, got, want)
		}
	}
	has(nil, "")
	has([]byte{}, "RINGFENCE_RECORD_KEY=")
	has([]byte("a\x00b"), "")
	has([]byte("a=b"), "RINGFENCE_RECORD_KEY=a=b")
}
