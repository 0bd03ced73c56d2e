package testserver_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
)

// echo answers every line with itself, and counts them.
type echo struct {
	listener net.Listener
	wg       sync.WaitGroup
	lines    chan string
	ends     chan error
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: l, lines: make(chan string, 100), ends: make(chan error, 100)}
	e.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); e.wg.Wait() })
	return e
}

func (e *echo) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			e.ends <- err
			return
		}
		e.lines <- line
		_, _ = io.WriteString(c, line)
	}
}

type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *testserver.Proxy) *client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear is the next line, within the time.
func (c *client) hear(within time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(within))
	return c.r.ReadString('\n')
}

func (c *client) expect(line string) {
	c.t.Helper()
	got, err := c.hear(10 * time.Second)
	if err != nil || got != line+"\n" {
		c.t.Fatalf("heard %q, %v; expected %q", got, err, line)
	}
}

func (c *client) expectSilence() {
	c.t.Helper()
	if got, err := c.hear(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("heard %q, %v; expected nothing", got, err)
	}
}

func (c *client) expectReset() {
	c.t.Helper()
	if got, err := c.hear(10 * time.Second); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("heard %q, %v; expected a reset", got, err)
	}
}

// expectHarm waits for what the proxy says that it did.
func expectHarm(t *testing.T, p *testserver.Proxy, want testserver.Harm) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.Harm() != want {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the proxy did %+v; expected %+v", p.Harm(), want)
		}
	}
}

func fixture(t *testing.T) (*echo, *testserver.Proxy) {
	t.Helper()
	e := newEcho(t)
	return e, testserver.NewProxy(t, e.listener.Addr().String())
}

func TestAProxyPassesBytesAndTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	e, p := fixture(t)
	c := dial(t, p)
	c.say("one")
	c.expect("one")
	if p.Connections() != 1 {
		t.Errorf("%d connections; expected 1", p.Connections())
	}
	_ = c.Close()
	if err := <-e.ends; err != io.EOF {
		t.Errorf("the server saw %v; expected the end in order", err)
	}
}

func TestALostReplyIsOneWhoseRequestWasExecuted(t *testing.T) {
	t.Parallel()
	e, p := fixture(t)
	c := dial(t, p)
	p.Down(testserver.Fault{Drop: true})
	c.say("one")
	if got := <-e.lines; got != "one\n" {
		t.Fatalf("the server got %q", got)
	}
	c.expectSilence()
	c.say("two") // the way up works still
	<-e.lines
	expectHarm(t, p, testserver.Harm{LostDown: int64(len("one\ntwo\n"))})
	p.Heal()
	c.expectReset()
	again := dial(t, p)
	again.say("three")
	again.expect("three")
}

func TestALostRequestReachesNobody(t *testing.T) {
	t.Parallel()
	e, p := fixture(t)
	c := dial(t, p)
	c.say("one")
	c.expect("one")
	<-e.lines
	p.Up(testserver.Fault{Drop: true})
	c.say("two")
	c.expectSilence()
	if len(e.lines) > 0 {
		t.Errorf("the server got %q", <-e.lines)
	}
	expectHarm(t, p, testserver.Harm{LostUp: int64(len("two\n"))})
}

func TestABlackholeHidesTheEndOfAConnectionToo(t *testing.T) {
	t.Parallel()
	e, p := fixture(t)
	c := dial(t, p)
	c.say("one")
	c.expect("one")
	p.Blackhole()
	_ = c.Close()
	other := dial(t, p)
	other.say("two")
	other.expectSilence()
	// Silence alone may be that of a busy machine. What the proxy has not seen yet passes after Heal.
	expectHarm(t, p, testserver.Harm{LostUp: int64(len("two\n"))})
	select {
	case err := <-e.ends:
		t.Fatalf("the server noticed: %v", err)
	default:
	}
	p.Heal()
	<-e.ends
	other.expectReset()
}

func TestSwallowedConnectionsStayOpenAndNewOnesWork(t *testing.T) {
	t.Parallel()
	e, p := fixture(t)
	c := dial(t, p)
	c.say("one")
	c.expect("one")
	p.Swallow()
	c.say("two")
	c.expectSilence()
	again := dial(t, p)
	again.say("three")
	again.expect("three")
	_ = c.Close()
	if len(e.ends) > 0 {
		t.Fatalf("the server noticed: %v", <-e.ends)
	}
	p.Heal()
	<-e.ends
	again.say("four")
	again.expect("four")
}

func TestDropAfterCutsInTheMiddle(t *testing.T) {
	t.Parallel()
	_, p := fixture(t)
	p.Down(testserver.Fault{Drop: true, After: 6})
	c := dial(t, p)
	c.say("one")
	c.expect("one")
	c.say("two")
	if got, err := c.hear(50 * time.Millisecond); got != "tw" || err == nil {
		t.Errorf("heard %q, %v; expected the first two bytes", got, err)
	}
}

func TestDelayKeepsOrderAndDoesNotAddUp(t *testing.T) {
	t.Parallel()
	_, p := fixture(t)
	c := dial(t, p)
	const delay = 100 * time.Millisecond
	p.Up(testserver.Fault{Delay: delay})
	start := time.Now()
	lines := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"}
	for _, line := range lines {
		c.say(line)
	}
	for _, line := range lines {
		c.expect(line)
	}
	if took := time.Since(start); took < delay || took > time.Duration(len(lines))*delay {
		t.Errorf("20 lines took %s through a delay of %s", took, delay)
	}
	expectHarm(t, p, testserver.Harm{Delayed: int64(2 * len(lines))})
}

func TestResetEndsConnectionsAndRefuseAdmitsNone(t *testing.T) {
	t.Parallel()
	_, p := fixture(t)
	c := dial(t, p)
	c.say("one")
	c.expect("one")
	p.Reset()
	c.expectReset()
	expectHarm(t, p, testserver.Harm{Reset: 1})
	p.Refuse()
	refused, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer func() { _ = refused.Close() }()
		(&client{t, refused, bufio.NewReader(refused)}).expectReset()
	}
	expectHarm(t, p, testserver.Harm{Reset: 1, Refused: 1})
	p.Heal()
	again := dial(t, p)
	again.say("two")
	again.expect("two")
}

func TestAURLIsLedThroughTheProxy(t *testing.T) {
	t.Parallel()
	p := testserver.NewProxy(t, "postgres://me:secret@127.0.0.1:1/db")
	if got, want := p.URL("postgres://me:secret@127.0.0.1:1/db?sslmode=disable"), "postgres://me:secret@"+p.Addr()+"/db?sslmode=disable"; got != want {
		t.Errorf("%s; expected %s", got, want)
	}
}
