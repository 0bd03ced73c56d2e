package backends_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// Environment of a process that is a member of a registry: URL, namespace and TTL, divided by blanks.
const memberRole = "RINGFENCE_TEST_MEMBER"

// TestMemberProcess is no test but the body of the processes of the ones below. It binds an entry to a session, and at
// each line on stdin says what becomes of a put in the name of that session.
func TestMemberProcess(t *testing.T) {
	words := strings.Split(os.Getenv(memberRole), " ")
	if len(words) != 3 {
		return // an ordinary run
	}
	ttl, err := time.ParseDuration(words[2])
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r, err := openRegistry(ctx, words[0], driver.Options{Namespace: words[1]})
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.OpenSession(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	write := registry.Txn{Puts: []registry.Put{{Key: "member/" + x.ID(), Session: x.ID()}}}
	if _, err := r.Txn(ctx, write); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		_, err := r.Txn(ctx, write)
		fmt.Println("fenced", errors.Is(err, registry.ErrFenced), err)
	}
	os.Exit(0)
}

type member struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func spawn(t *testing.T, raw, namespace string, ttl time.Duration) *member {
	t.Helper()
	m := &member{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestMemberProcess$")}
	m.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", memberRole, raw, namespace, ttl))
	m.cmd.Stderr = os.Stderr
	in, err1 := m.cmd.StdinPipe()
	out, err2 := m.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, m.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	m.in, m.out = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
	})
	m.expect("ready")
	return m
}

func (m *member) expect(start string) {
	m.t.Helper()
	if !m.out.Scan() || !strings.HasPrefix(m.out.Text(), start) {
		m.t.Fatalf("a member says %q, expected %q", m.out.Text(), start)
	}
}

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// awaitMembers waits, driven by signals, until so many members are left.
func (r kept) awaitMembers(want int) time.Duration {
	r.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), late)
	defer cancel()
	ch, err := r.Watch(ctx, "member/")
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		snap, err := r.List(r.t.Context(), "member/")
		if err != nil {
			r.t.Fatal(err)
		}
		if len(snap.Entries) == want {
			return time.Since(began)
		}
		if _, open := <-ch; !open {
			r.t.Fatalf("there are %d members after %s, expected %d", len(snap.Entries), late, want)
		}
	}
}

// On every registry: processes that are killed at once, neighbours among them, are noticed long before their TTL where
// the store has more than the TTL, also by a process that comes later; a stopped one is fenced when it goes on.
func TestProcessesThatDieAreNoticedAndAStoppedOneIsFenced(t *testing.T) {
	t.Parallel()
	for _, name := range append(testserver.Registries(t), "sqlite", "file") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var raw string
			namespace, ttl := fmt.Sprintf("process-%016x", rand.Uint64()), 10*time.Minute
			switch name {
			case "sqlite":
				raw = "sqlite://" + filepath.Join(t.TempDir(), "registry.db")
			case "file":
				raw = "file://" + filepath.Join(t.TempDir(), "data")
			case "etcd":
				raw, ttl = testserver.URL(t, name), 4*time.Second
			default:
				raw = testserver.URL(t, name)
			}
			unwatched := spawn(t, raw, namespace, ttl)
			unwatched.signal(syscall.SIGKILL)
			_ = unwatched.cmd.Wait()
			r := opened(t, raw, driver.Options{Namespace: namespace})
			r.awaitMembers(0)
			mine := r.bind("mine", ttl)
			for _, n := range []int{1, 4} {
				var all []*member
				for range n {
					all = append(all, spawn(t, raw, namespace, ttl))
				}
				r.awaitMembers(n)
				for _, m := range all {
					m.signal(syscall.SIGKILL)
				}
				t.Logf("the death of %d was noticed after %s", n, r.awaitMembers(0))
			}
			if ended(mine) || r.version("mine") == "" {
				t.Error("the session of a living process ended")
			}
			const short = 5 * time.Second
			m := spawn(t, raw, namespace, short)
			stopped := time.Now()
			m.signal(syscall.SIGSTOP)
			r.awaitMembers(0)
			if took := time.Since(stopped); took < short/5 { // the last renewal was some time ago
				t.Errorf("a stopped process lost its session after %s; its TTL is %s", took, short)
			}
			m.signal(syscall.SIGCONT)
			_, _ = fmt.Fprintln(m.in)
			m.expect("fenced true")
		})
	}
}
