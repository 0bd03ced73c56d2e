package pgregistry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// The test program is also a member in a process of its own: it binds an entry to a session, says
// so, and at each line that it reads writes a checkpoint under that session.
func TestMain(m *testing.M) {
	if url := os.Getenv("PGREGISTRY_MEMBER_URL"); url != "" {
		if err := member(url, os.Getenv("PGREGISTRY_MEMBER_SCHEMA"), os.Getenv("PGREGISTRY_MEMBER_TTL")); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func member(url, schema, text string) error {
	ctx := context.Background()
	ttl, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	s, err := open(ctx, Config{URL: url, Schema: schema})
	if err != nil {
		return err
	}
	x, err := s.OpenSession(ctx, ttl)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("members/%d", os.Getpid())
	write := func() error {
		res, err := s.Apply(ctx, []driver.Txn{{Puts: []driver.Put{{Key: key, Session: x.ID()}}}})
		if err == nil {
			err = res[0].Err
		}
		return err
	}
	if err := write(); err != nil {
		return err
	}
	fmt.Println("ready", key)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch err := write(); {
		case errors.Is(err, driver.ErrFenced):
			fmt.Println("fenced", ended(x))
		case err != nil:
			fmt.Println("failed", err)
		default:
			fmt.Println("written")
		}
	}
	return s.Close()
}

type actor struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	key string // that it has bound
}

func (d schemaStore) spawn(t *testing.T, ttl time.Duration) *actor {
	t.Helper()
	a := &actor{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	a.cmd.Env = append(os.Environ(), "PGREGISTRY_MEMBER_URL="+d.url, "PGREGISTRY_MEMBER_SCHEMA="+d.schema, "PGREGISTRY_MEMBER_TTL="+ttl.String())
	a.cmd.Stderr = os.Stderr
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	})
	a.out = bufio.NewScanner(out)
	a.key = a.expect("ready")
	return a
}

// expect reads a line and returns what stands behind its first word.
func (a *actor) expect(word string) string {
	a.t.Helper()
	if !a.out.Scan() {
		a.t.Fatalf("the process ended; expected %q", word)
	}
	first, rest, _ := strings.Cut(a.out.Text(), " ")
	if first != word {
		a.t.Fatalf("the process said %q; expected %q", a.out.Text(), word)
	}
	return rest
}

func (a *actor) write() { fmt.Fprintln(a.in) }

func (a *actor) signal(sig os.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(sig); err != nil {
		a.t.Fatal(err)
	}
}

// vanished waits, as a member does, until entries have vanished, and returns how long it took.
func vanished(t *testing.T, s *store, signals <-chan struct{}, keys ...string) time.Duration {
	t.Helper()
	began := time.Now()
	late := time.After(30 * time.Second)
	for {
		if !slices.ContainsFunc(keys, func(k string) bool { return get(t, s, k).Version != "" }) {
			return time.Since(began)
		}
		select {
		case <-signals:
		case <-late:
			t.Fatalf("%q are still there after %s", keys, time.Since(began))
		}
	}
}

func TestKill9IsNoticedLongBeforeTheTTL(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	s := d.open(t, driver.Options{})
	mine := session(t, s, time.Minute)
	signals, err := s.Watch(t.Context(), "members/")
	if err != nil {
		t.Fatal(err)
	}
	var all []time.Duration
	for range 5 {
		a := d.spawn(t, time.Minute)
		await(t, "somebody waits for it", func() bool { peers, _ := s.keeper.view(); return len(peers) == 2 })
		a.signal(syscall.SIGKILL)
		all = append(all, vanished(t, s, signals, a.key))
	}
	slices.Sort(all)
	t.Logf("noticed within %s to %s", all[0], all[len(all)-1])
	if median := all[len(all)/2]; median > time.Second {
		t.Errorf("noticed after %s, in the median of %v", median, all)
	}
	// Those who die at once, neighbours in the ring among them, are all noticed.
	var keys []string
	var actors []*actor
	for range 4 {
		a := d.spawn(t, time.Minute)
		actors, keys = append(actors, a), append(keys, a.key)
	}
	await(t, "all are known", func() bool { peers, _ := s.keeper.view(); return len(peers) == 5 })
	for _, a := range actors {
		a.signal(syscall.SIGKILL)
	}
	if took := vanished(t, s, signals, keys...); took > 20*time.Second {
		t.Errorf("four that died at once were noticed after %s", took)
	}
	if ended(mine) {
		t.Error("the session of the one that lives ended as well")
	}
}

// expiry is when the last session expires, by the server's clock, and what that shows now.
func expiry(t *testing.T, d schemaStore) (expires, now time.Time) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	err = c.QueryRow(t.Context(), `SELECT coalesce(max(expires), to_timestamp(0)), clock_timestamp() FROM `+d.schema+`.session`).Scan(&expires, &now)
	if err != nil {
		t.Fatal(err)
	}
	return expires, now
}

func TestAStoppedProcessExpiresAndItsNextWriteIsRefused(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	s := d.open(t, driver.Options{})
	signals, err := s.Watch(t.Context(), "members/")
	if err != nil {
		t.Fatal(err)
	}
	a := d.spawn(t, 5*time.Second)
	a.write()
	a.expect("written")
	a.signal(syscall.SIGSTOP)
	expires, _ := expiry(t, d)
	vanished(t, s, signals, a.key)
	if _, now := expiry(t, d); now.Before(expires) {
		t.Errorf("it was taken for dead %s before its session expired; it only stood still", expires.Sub(now))
	}
	a.write()
	a.signal(syscall.SIGCONT)
	a.expect("fenced")
}
