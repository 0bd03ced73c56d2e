package redisregistry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// Set for a process that is a member: the store's URL, namespace and TTL, divided by spaces.
const memberVariable = "REDISREGISTRY_TEST_MEMBER"

func TestMain(m *testing.M) {
	if role := os.Getenv(memberVariable); role != "" {
		if err := beMember(role); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	// The library sleeps for a second before it looks at a Cluster again, also when it is closed meanwhile.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// beMember holds a session with the entry member/<id>, and at each line on stdin says what
// becomes of a put in its name.
func beMember(role string) error {
	words := strings.Fields(role)
	u, err := url.Parse(words[0])
	if err != nil {
		return err
	}
	ttl, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, err := OpenURL(ctx, u, driver.Options{Namespace: words[1]})
	if err != nil {
		return err
	}
	x, err := r.OpenSession(ctx, ttl)
	if err != nil {
		return err
	}
	write := driver.Txn{Puts: []driver.Put{{Key: "member/" + x.ID(), Session: x.ID()}}}
	if _, err := r.Txn(ctx, write); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch _, err := r.Txn(ctx, write); {
		case errors.Is(err, fault.Fenced):
			fmt.Println("fenced")
		default:
			fmt.Println("wrote", err)
		}
	}
	return nil
}

type member struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func spawn(t *testing.T, cfg Config, ttl time.Duration) *member {
	t.Helper()
	m := &member{t: t, cmd: exec.Command(os.Args[0])}
	m.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=redis://:%s@%s/%d %s %s", memberVariable, cfg.Password, cfg.Addresses[0], cfg.DB, cfg.Namespace, ttl))
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

func (m *member) expect(line string) {
	m.t.Helper()
	if !m.out.Scan() || m.out.Text() != line {
		m.t.Fatalf("a member says %q, expected %q", m.out.Text(), line)
	}
}

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// awaitMembers returns how long it took until so many members were left, driven by signals.
func awaitMembers(t *testing.T, s *store, want int) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	ch, err := s.Watch(ctx, "member/")
	if err != nil {
		t.Fatal(err)
	}
	for {
		snap, err := s.List(t.Context(), "member/")
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Entries) == want {
			return time.Since(began)
		}
		if _, open := <-ch; !open {
			t.Fatalf("there are %d members after %s, expected %d", len(snap.Entries), soon, want)
		}
	}
}

func TestKill9IsNoticedLongBeforeTheTTL(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s := mustOpen(t, cfg)
	spawn(t, cfg, time.Minute) // one that lives
	var took []time.Duration
	for range 10 {
		m := spawn(t, cfg, time.Minute)
		awaitMembers(t, s, 2)
		m.signal(syscall.SIGKILL)
		took = append(took, awaitMembers(t, s, 1))
	}
	slices.Sort(took)
	t.Logf("from kill -9 to the watch's list, idle: median %s, worst %s", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second {
		t.Errorf("median %s", took[len(took)/2])
	}
}

// Whoever is among the failure detectors dies with the others.
func TestProcessesThatDieTogetherAreAllNoticed(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s := mustOpen(t, cfg)
	var all []*member
	for range 5 {
		all = append(all, spawn(t, cfg, time.Minute))
	}
	awaitMembers(t, s, 5)
	for _, m := range all[:4] {
		m.signal(syscall.SIGKILL)
	}
	awaitMembers(t, s, 1) // which ends long before the TTL
}

func TestAProcessThatIsStoppedBeyondItsTTLIsFenced(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s := mustOpen(t, cfg)
	const ttl = 5 * time.Second
	m := spawn(t, cfg, ttl)
	m.signal(syscall.SIGSTOP)
	if took := awaitMembers(t, s, 0); took < ttl/5 { // the last renewal was some time ago
		t.Errorf("a stopped process lost its session after %s; its TTL is %s", took, ttl)
	}
	m.signal(syscall.SIGCONT)
	fmt.Fprintln(m.in)
	m.expect("fenced")
}
