package testserver_test

import (
	"bufio"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command sends one line to a Redis and returns the first line of the answer.
func command(t *testing.T, raw, line string, within time.Duration) (string, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := c.Write([]byte(line + "\r\n")); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func TestAPrivateServerKeepsItsDataThroughKillAndFreeze(t *testing.T) {
	t.Parallel()
	s := testserver.Private(t, "redis")
	do := func(line string) {
		t.Helper()
		if got, err := command(t, s.URL(), line, 10*time.Second); err != nil || got != "+OK" {
			t.Fatalf("%s: %q, %v", line, got, err)
		}
	}
	do("CONFIG SET appendfsync always") // by default it may put writes off
	do("SET k 1")
	s.Freeze()
	if got, err := command(t, s.URL(), "PING", 100*time.Millisecond); err == nil {
		t.Fatalf("a frozen server answered %q", got)
	}
	s.Thaw()
	do("SET k 22")
	s.Kill()
	if got, err := command(t, s.URL(), "PING", time.Second); err == nil {
		t.Fatalf("a dead server answered %q", got)
	}
	s.Restart()
	if got, err := command(t, s.URL(), "EXISTS k", 10*time.Second); err != nil || got != ":1" {
		t.Fatalf("after the restart: %q, %v", got, err)
	}
	s.Halt()
	s.Restart()
	if got, err := command(t, s.URL(), "STRLEN k", 10*time.Second); err != nil || got != ":2" {
		t.Fatalf("after the second restart: %q, %v", got, err)
	}
}
