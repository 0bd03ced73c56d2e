package fileregistry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/registry"
)

// The test binary runs itself as other processes on the store.
func TestMain(m *testing.M) {
	if role := os.Getenv("FILEREGISTRY_ROLE"); role != "" {
		if err := play(role, os.Getenv("FILEREGISTRY_DIR")); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(role, dir string) error {
	ctx := context.Background()
	r, err := Open(ctx, Config{Dir: dir})
	if err != nil {
		return err
	}
	defer r.Close()
	name, arg, _ := strings.Cut(role, ":")
	switch name {
	case "count":
		n, _ := strconv.Atoi(arg)
		return playCount(ctx, r, "shared", n, false)
	case "forever":
		return playCount(ctx, r, "own/"+arg, 1<<30, true)
	case "member", "forked":
		if name == "forked" {
			cmd := exec.Command("sleep", "60") // outlives this process
			if err := cmd.Start(); err != nil {
				return err
			}
			fmt.Println("child", cmd.Process.Pid)
		}
		ttl, _ := time.ParseDuration(arg)
		return playMember(ctx, r, ttl)
	case "idle":
		return playIdle(ctx, r)
	}
	return fmt.Errorf("no role %q", role)
}

// playCount increments a counter by compare-and-set, and says so after each.
func playCount(ctx context.Context, r *registry.Registry, key string, n int, loud bool) error {
	for i := 0; i < n; {
		e, err := r.Get(ctx, key)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		have, _ := strconv.Atoi(string(e.Value))
		_, err = r.Txn(ctx, registry.Txn{
			Checks: []registry.Check{{Key: key, Version: e.Version}},
			Puts:   []registry.Put{{Key: key, Value: []byte(strconv.Itoa(have + 1))}},
		})
		switch {
		case err == nil:
			i++
			if loud {
				fmt.Println("acked", have+1)
			}
		case !errors.Is(err, registry.ErrConflict):
			return err
		}
	}
	return nil
}

// playMember holds a session; for each line on stdin it tries to write in its name.
func playMember(ctx context.Context, r *registry.Registry, ttl time.Duration) error {
	s, err := r.OpenSession(ctx, ttl)
	if err != nil {
		return err
	}
	put := registry.Txn{Puts: []registry.Put{{Key: fmt.Sprint("member/", os.Getpid()), Value: []byte("here"), Session: s.ID()}}}
	if _, err := r.Txn(ctx, put); err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		_, err := r.Txn(ctx, put)
		if !errors.Is(err, registry.ErrFenced) {
			return fmt.Errorf("write: %v, expected it to be fenced", err)
		}
		<-s.Done()
		fmt.Println("fenced")
	}
	return nil
}

// playIdle prints what CPU time two seconds of an idle member with a watch take.
func playIdle(ctx context.Context, r *registry.Registry) error {
	if _, err := r.OpenSession(ctx, 2*time.Second); err != nil {
		return err
	}
	if _, err := r.Watch(ctx, ""); err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	before := cpuTime()
	time.Sleep(2 * time.Second) // what is measured is a time of nothing
	fmt.Println("cpu", (cpuTime() - before).Microseconds())
	return nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// actor is a real process that plays a role.
type actor struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func spawn(t *testing.T, dir, role string) *actor {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "FILEREGISTRY_ROLE="+role, "FILEREGISTRY_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() {
		w.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &actor{t: t, cmd: cmd, in: w, out: bufio.NewScanner(out)}
}

func (a *actor) signal(sig syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(sig); err != nil {
		a.t.Fatal(err)
	}
}

// expect reads lines until one starts with word, and returns the rest of it.
func (a *actor) expect(word string) string {
	a.t.Helper()
	for a.out.Scan() {
		if rest, ok := strings.CutPrefix(a.out.Text(), word); ok {
			return strings.TrimSpace(rest)
		}
		if strings.HasPrefix(a.out.Text(), "error") {
			a.t.Fatal(a.out.Text())
		}
	}
	a.t.Fatalf("the process ended without saying %q", word)
	return ""
}

func (a *actor) say() {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, "go on"); err != nil {
		a.t.Fatal(err)
	}
}
