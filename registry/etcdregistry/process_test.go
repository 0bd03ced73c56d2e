package etcdregistry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// Set for a process that is a member: the store's URL and the TTL, divided by a blank.
const memberVariable = "ETCDREGISTRY_TEST_MEMBER"

// beMember binds an entry to a session, and at each line on stdin says what becomes of a put in
// the name of that session.
func beMember(role string) error {
	address, text, _ := strings.Cut(role, " ")
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ttl, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, err := OpenURL(ctx, u, driver.Options{})
	if err != nil {
		return err
	}
	x, err := r.OpenSession(ctx, ttl)
	if err != nil {
		return err
	}
	write := driver.Txn{Puts: []driver.Put{{Key: "members/1", Session: x.ID()}}}
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

type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func spawn(t *testing.T, cfg Config, ttl time.Duration) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=etcd://%s/%s %s", memberVariable, cfg.Endpoints[0], cfg.Prefix, ttl))
	p.cmd.Stderr = os.Stderr
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	p.expect("ready")
	return p
}

func (p *process) expect(line string) {
	p.t.Helper()
	if !p.out.Scan() || p.out.Text() != line {
		p.t.Fatalf("a process says %q, expected %q", p.out.Text(), line)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// processTTL leaves time to start the process and to watch it on a machine that stalls.
const processTTL = 5 * time.Second

// awaitEnd waits until the entry of the process is gone; that may be so already.
func awaitEnd(t *testing.T, s *store, changes <-chan struct{}) {
	t.Helper()
	for has(t, s, "members/1") {
		await(t, "the end of the lease", changes)
	}
}

func TestAKilledProcessIsNoticedWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	cfg := config(t, testserver.URL(t, "etcd"))
	s := opened(t, cfg)
	p := spawn(t, cfg, processTTL)
	changes, err := s.Watch(t.Context(), "members/")
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	p.signal(syscall.SIGKILL)
	awaitEnd(t, s, changes)
	t.Logf("noticed after %s", time.Since(killed))
}

func TestAStoppedProcessIsFencedWhenItGoesOn(t *testing.T) {
	t.Parallel()
	cfg := config(t, testserver.URL(t, "etcd"))
	s := opened(t, cfg)
	p := spawn(t, cfg, processTTL)
	changes, err := s.Watch(t.Context(), "members/")
	if err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGSTOP)
	awaitEnd(t, s, changes)
	p.signal(syscall.SIGCONT)
	fmt.Fprintln(p.in)
	p.expect("fenced")
}
