package testserver_test

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
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
	password, _ := u.User.Password()
	if _, err := c.Write([]byte("AUTH " + password + "\r\n" + line + "\r\n")); err != nil {
		return "", err
	}
	in := bufio.NewReader(c)
	if answer, err := in.ReadString('\n'); err != nil || answer != "+OK\r\n" {
		return strings.TrimSpace(answer), err
	}
	answer, err := in.ReadString('\n')
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
	s.Stop()
	s.Restart()
	if got, err := command(t, s.URL(), "STRLEN k", 10*time.Second); err != nil || got != ":2" {
		t.Fatalf("after the second restart: %q, %v", got, err)
	}
}

// A test that is killed runs no cleanup, and its servers end all the same.
func TestPrivateServersEndWithTheirTest(t *testing.T) {
	const asked = "RINGFENCE_TEST_OF_PRIVATE"
	if os.Getenv(asked) != "" {
		s := testserver.Private(t, "redis")
		fmt.Println(s.URL())
		select {} // until it is killed
	}
	s := testserver.Private(t, "redis") // or the test is skipped
	if _, err := command(t, s.URL(), "PING", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPrivateServersEndWithTheirTest$")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	if got, err := command(t, url, "PING", 10*time.Second); err != nil || got != "+PONG" {
		t.Fatalf("the server of the other test: %q, %v", got, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
		if _, err := command(t, url, "PING", time.Second); err != nil {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("a minute after its test was killed the server still answers")
		}
	}
}
