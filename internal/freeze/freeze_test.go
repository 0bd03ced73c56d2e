package freeze_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/freeze"
)

const (
	childCounts = "RINGFENCE_TEST_HALT"
	childLocks  = "RINGFENCE_TEST_LOCK" // the file
)

func TestMain(m *testing.M) {
	if os.Getenv(childCounts) != "" {
		for {
			if _, err := os.Stdout.WriteString("tick\n"); err != nil {
				os.Exit(0)
			}
		}
	}
	if name := os.Getenv(childLocks); name != "" {
		lockAgainAndAgain(name)
	}
	goleak.VerifyTestMain(m)
}

func TestAStoppedProcessDoesNothingMore(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childCounts+"=1")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := make(chan struct{}, 1<<20)
	go func() { // ends with the child
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- struct{}{}
		}
	}()
	for range 20 {
		<-lines
		if err := freeze.Process(t.Context(), child.Process); err != nil {
			t.Fatal(err)
		}
		// What it wrote before is read until none is left, which a process that goes on prevents.
		rest := func() bool {
			before := len(lines)
			<-time.After(50 * time.Millisecond)
			return len(lines) == before
		}
		for tries := 0; !rest(); tries++ {
			if tries == 100 {
				t.Fatal("a stopped process writes on")
			}
		}
		if err := child.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for len(lines) > 0 {
			<-lines
		}
	}
}

func TestAProcessThatIsGoneIsAnError(t *testing.T) {
	t.Parallel()
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	if err := freeze.Process(t.Context(), child.Process); err == nil {
		t.Error("a process that has ended was stopped")
	}
}

// lockAgainAndAgain has a lock for most of the time.
func lockAgainAndAgain(name string) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	for err == nil {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil {
			fmt.Println("locked")
			time.Sleep(3 * time.Millisecond) // it may be stopped with the lock
			err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
			time.Sleep(3 * time.Millisecond) // and without
		}
	}
	os.Exit(1)
}

func TestAStoppedProcessHasNoLockInItsHand(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childLocks+"="+name)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(out)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 10 {
		lines.Scan()
		if err := freeze.Process(t.Context(), child.Process); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatalf("the lock of a stopped process: %v", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := child.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
}
