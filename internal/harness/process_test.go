package harness

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/history"
)

// childReady, in the environment, makes this test binary a process that makes the file that it
// names, and ends when it is asked to.
const childReady = "RINGFENCE_TEST_HARNESS_READY"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "job" {
		if err := RunJob(context.Background(), os.Args[2], os.Stdin, os.Stdout, &echoJob{kept: "kept"}); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	if path := os.Getenv(childReady); path != "" {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("at work")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			os.Exit(3)
		}
		<-asked
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// startChild starts a process, and returns when it waits to be asked.
func startChild(t *testing.T) *Process {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	p, err := Start("child", os.Args[0], nil, []string{childReady + "=" + ready})
	must(t, err)
	t.Cleanup(func() {
		_ = p.Kill() // it may have ended
		<-p.Done()
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ready); err == nil {
			return p
		}
		select {
		case <-tick.C:
		case <-p.Done():
			t.Fatalf("it ended: %v", p.Wait())
		}
	}
}

func TestKilledProcessEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	p := startChild(t)
	must(t, p.Kill())
	if err := p.Wait(); err != nil || !p.WasKilled() || !p.EndedBy(syscall.SIGKILL) || p.ExitCode() != -1 {
		t.Errorf("%v, killed %t by SIGKILL %t, exit code %d", err, p.WasKilled(), p.EndedBy(syscall.SIGKILL), p.ExitCode())
	}
}

func TestWaitTellsHowAProcessEnded(t *testing.T) {
	t.Parallel()
	p := startChild(t)
	must(t, syscall.Kill(p.PID(), syscall.SIGQUIT))
	err := p.Wait()
	if err == nil || !strings.Contains(err.Error(), "child") || !strings.HasPrefix(string(p.Output()), "at work") || !p.Ended() {
		t.Errorf("%v; expected its name and its words", err)
	}
}

func TestTailTellsADataRace(t *testing.T) {
	t.Parallel()
	p, err := Start("racer", "/bin/sh", []string{"-c", `echo WARNING: DATA RACE; echo first; i=0; while [ $i -lt 2000 ]; do echo noise; i=$((i+1)); done; echo last; exit 66`}, nil)
	must(t, err)
	err = p.Wait()
	for _, want := range []string{"exit status 66", "DATA RACE\nfirst", "last"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestFrozenProcessLeavesWhenItGoesOn(t *testing.T) {
	t.Parallel()
	p := startChild(t)
	must(t, p.Freeze(t.Context()))
	must(t, p.Leave())
	if state := stateOf(t, p.PID()); state != "T" || p.Ended() {
		t.Errorf("its state is %s, ended %t; expected that it is stopped", state, p.Ended())
	}
	must(t, p.Thaw())
	if err := p.Wait(); err != nil || !p.WasAsked() || p.ExitCode() != 0 {
		t.Errorf("%v, asked %t, exit code %d; expected that it left", err, p.WasAsked(), p.ExitCode())
	}
}

func TestLeavingProcessIsAskedOnce(t *testing.T) {
	t.Parallel()
	p := startChild(t)
	must(t, p.Leave())
	must(t, p.Wait())
	if err := p.Leave(); err != nil { // a signal would meet nobody
		t.Errorf("it is asked a second time: %v", err)
	}
}

func stateOf(t *testing.T, pid int) string {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "State:"); ok {
			return strings.TrimSpace(rest)[:1]
		}
	}
	t.Fatalf("process %d has no state", pid)
	return ""
}

func TestUnitsNumberAllStorageTopicsThrough(t *testing.T) {
	t.Parallel()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "mem:", Registry: "mem:"})
	must(t, err)
	defer func() { _ = rf.Close() }()
	must(t, rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 3}))
	u := units{rf: rf, topic: "t"}
	for i, partitions := range []int{6, 12} {
		_, err := rf.Admin().AddStorage(t.Context(), "t", partitions)
		must(t, err)
		want := []int{3 + 2, 3 + 6 + 2}[i]
		if got, err := u.of(t.Context(), i+1, 2); err != nil || got != want {
			t.Errorf("partition 2 of storage topic %d is unit %d (%v); expected %d", i+1, got, err, want)
		}
	}
	if n, err := u.of(t.Context(), 3, 0); err == nil {
		t.Errorf("a storage topic that is not there has unit %d", n)
	}
}

func TestReadOfAMissingHistoryIsEmpty(t *testing.T) {
	t.Parallel()
	err := Read(filepath.Join(t.TempDir(), "none"), 0, func(e history.Event) { t.Errorf("%s", e) })
	if err != nil {
		t.Error(err)
	}
	if _, err := Judge(history.Config{}, true, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a history that is missing was judged")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
