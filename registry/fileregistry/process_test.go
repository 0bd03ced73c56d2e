package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
)

func openDir(t *testing.T, dir string) *registry.Registry {
	t.Helper()
	r, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func value(t *testing.T, r *registry.Registry, key string) string {
	t.Helper()
	e, err := r.Get(t.Context(), key)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		t.Fatal(err)
	}
	return string(e.Value)
}

func TestThreeProcessesCountEveryIncrement(t *testing.T) {
	t.Parallel()
	const each = 300
	dir := t.TempDir()
	actors := []*actor{spawn(t, dir, fmt.Sprint("count:", each)), spawn(t, dir, fmt.Sprint("count:", each)), spawn(t, dir, fmt.Sprint("count:", each))}
	for i := range 30 { // stopped anywhere, with the lock as well, a process only holds others up
		p := actors[i%3].cmd.Process
		_ = p.Signal(syscall.SIGSTOP)    // it may be done
		time.Sleep(3 * time.Millisecond) // the process stays stopped for this long
		_ = p.Signal(syscall.SIGCONT)
	}
	for _, a := range actors {
		for a.out.Scan() {
			t.Error(a.out.Text())
		}
	}
	if got := value(t, openDir(t, dir), "shared"); got != strconv.Itoa(3*each) {
		t.Fatalf("the counter is at %s after %d increments", got, 3*each)
	}
}

func TestKill9InTheMiddleOfWritesLosesNothingAcked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openDir(t, dir)
	for round := range 12 {
		a := spawn(t, dir, fmt.Sprint("forever:", round))
		last := 0
		for range 20 + 7*round {
			last, _ = strconv.Atoi(a.expect("acked"))
		}
		a.signal(syscall.SIGKILL)
		for a.out.Scan() {
			if rest, ok := strings.CutPrefix(a.out.Text(), "acked "); ok {
				last, _ = strconv.Atoi(rest)
			}
		}
		got, _ := strconv.Atoi(value(t, r, fmt.Sprint("own/", round)))
		if got != last && got != last+1 {
			t.Fatalf("round %d: %d were acked, the store has %d", round, last, got)
		}
		if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "after", Value: []byte("x")}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody else is there to notice: the process itself has to.
func TestAStoppedProcessAloneRefusesItsOwnWriteAfterTheTTL(t *testing.T) {
	t.Parallel()
	a := spawn(t, t.TempDir(), "member:600ms")
	a.expect("ready")
	a.signal(syscall.SIGSTOP)
	time.Sleep(time.Second) // the TTL has to pass for a process that does not run
	a.say()
	a.signal(syscall.SIGCONT)
	a.expect("fenced")
}

// members is how many member entries there are.
func members(t *testing.T, r *registry.Registry) int {
	t.Helper()
	snap, err := r.List(t.Context(), "member/")
	if err != nil {
		t.Fatal(err)
	}
	return len(snap.Entries)
}

// awaitGone returns how long it took until all member entries had vanished, driven by signals.
func awaitGone(t *testing.T, r *registry.Registry, limit time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ch, err := r.Watch(ctx, "member/")
	if err != nil {
		t.Fatal(err)
	}
	for members(t, r) > 0 {
		if _, open := <-ch; !open {
			t.Fatalf("%d members are still there after %s", members(t, r), limit)
		}
	}
	return time.Since(start)
}

func TestADeadProcessIsNoticedAlthoughItsChildLives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openDir(t, dir)
	a := spawn(t, dir, "forked:60s")
	child, _ := strconv.Atoi(a.expect("child"))
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	a.expect("ready")
	a.signal(syscall.SIGKILL)
	awaitGone(t, r, 10*time.Second)
}

func TestDeadProcessesLeaveNoFilesBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, role := range []string{"member:60s", "forever:x"} {
		a := spawn(t, dir, role)
		a.expect(map[string]string{"member:60s": "ready", "forever:x": "acked"}[role])
		a.signal(syscall.SIGKILL)
		_ = a.cmd.Wait()
	}
	openDir(t, dir).Close()
	left, err := filepath.Glob(filepath.Join(dir, dirName, livePrefix+"*"))
	if err != nil || len(left) != 0 {
		t.Fatalf("%v, %v are left", left, err)
	}
}

func TestThreeIdleProcessesTakeLessThanOnePercentOfACore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	actors := []*actor{spawn(t, dir, "idle"), spawn(t, dir, "idle"), spawn(t, dir, "idle")}
	for _, a := range actors {
		a.expect("ready")
	}
	for _, a := range actors {
		a.say()
	}
	total := 0
	for _, a := range actors {
		us, _ := strconv.Atoi(a.expect("cpu"))
		total += us
	}
	t.Logf("three idle processes took %.3f %% of one core", float64(total)/2e4)
	if total > 20_000 {
		t.Errorf("%d µs in two seconds", total)
	}
}

// A writer is stopped with the lock, and another process was killed: whoever opens the registry, to
// see what is the matter perhaps, does not wait until the end of the dead one's sessions is written.
func TestOpeningBesideAStoppedWriterDoesNotWaitForTheDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	living, err := open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	a := spawn(t, dir, "member:60s")
	a.expect("ready")
	release := hold(t, living, os.Getpid())
	a.signal(syscall.SIGKILL)
	_ = a.cmd.Wait()
	start := time.Now()
	r, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if members(t, r) == 0 {
		t.Error("the end of the session was written without the lock")
	}
	if took := time.Since(start); took > lockPatience/2 {
		t.Errorf("opening it and reading took %s", took)
	}
	release()
	awaitGone(t, r, 10*time.Second)
}
