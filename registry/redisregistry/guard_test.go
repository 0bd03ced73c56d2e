package redisregistry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// hostile is a server that answers each request with the same bytes; a HELLO well, if it is told to.
func hostile(t *testing.T, answer string, polite bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					verb, err := request(r)
					if err != nil {
						return
					}
					text := answer
					if polite && verb == "HELLO" {
						text = "%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n"
					}
					if _, err := io.WriteString(c, text); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// request reads one and gives its first word.
func request(r *bufio.Reader) (verb string, err error) {
	var f frames
	f.free, f.deliver = true, func(m *message) error { verb = m.text(0); return nil }
	for verb == "" {
		b, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		if err := f.feed([]byte{b}); err != nil {
			return "", err
		}
	}
	return verb, nil
}

// The client library panics in a goroutine of its own, or makes room for what it is told, at each of
// these. Here each is an error.
func TestAHostileServerEndsNoProcess(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a string of a terabyte":           "$1099511627776\r\n",
		"a string of less than nothing":    "$-2\r\n",
		"a list of a terabyte":             "*1099511627776\r\n",
		"a map of less than nothing":       "%-1\r\n",
		"a push of a terabyte":             ">1099511627776\r\n",
		"a piece of less than nothing":     "$?\r\n;-5\r\n",
		"lists in lists without end":       strings.Repeat("*1\r\n", 1<<20),
		"more answers than questions":      "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
		"a subscription nobody asked for":  ">3\r\n$10\r\nssubscribe\r\n$1\r\nx\r\n:1\r\n",
		"moved, and not where":             "-MOVED 1\r\n",
		"a line that does not end":         "+" + strings.Repeat("x", 8<<20),
		"a version 6 with pushes in lists": "*2\r\n>1\r\n+x\r\n+y\r\n",
	} {
		for _, polite := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			s, err := open(ctx, Config{Addresses: []string{hostile(t, answer, polite)}})
			cancel()
			if err == nil {
				t.Errorf("%s: it was opened", name)
				s.Close()
			}
		}
	}
}

// asking is the guard of a connection over which so much was asked.
func asking(requests ...string) (*guard, error) {
	g := newGuard()
	for _, r := range requests {
		if err := g.requests.feed([]byte(r)); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// words is a request as the library writes it.
func words(list ...string) string {
	b := fmt.Appendf(nil, "*%d\r\n", len(list))
	for _, w := range list {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return string(b)
}

// What Redis says in the course of a connection passes, however it is cut.
func TestTheGuardLetsRedisSpeak(t *testing.T) {
	t.Parallel()
	requests := words("HELLO", "3") + words("SSUBSCRIBE", "a", "b") + words("GET", "x") + words("EVALSHA", "s") + words("SUNSUBSCRIBE", "a") + words("PING")
	replies := "%2\r\n$5\r\nproto\r\n:3\r\n+modules\r\n*0\r\n" +
		">3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:2\r\n" +
		">3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$5\r\nhello\r\n" +
		"$-1\r\n*4\r\n:-1\r\n*-1\r\n*1\r\n$0\r\n\r\n_\r\n" +
		">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:1\r\n+PONG\r\n"
	for size := 1; size <= len(replies); size++ {
		g, err := asking(requests)
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < len(replies); from += size {
			if err := g.replies.feed([]byte(replies[from:min(from+size, len(replies))])); err != nil {
				t.Fatalf("in pieces of %d, at %d: %v", size, from, err)
			}
		}
		if len(g.due) != 0 || g.replies.sum != 0 {
			t.Fatalf("in pieces of %d, %d requests are left, in the middle of a message: %t", size, len(g.due), g.replies.sum != 0)
		}
	}
}

// In RESP2 nobody can tell what is pushed from what is answered: a server that has nothing else is
// refused before it says something.
func TestTheGuardSpeaksRESP3Only(t *testing.T) {
	t.Parallel()
	if _, err := asking(words("HELLO", "3"), words("HELLO", "2")); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "RESP3") {
		t.Errorf("RESP2 is spoken: %v", err)
	}
}

// What a message declares is refused as long as nothing of it has passed.
func TestTheGuardRefusesWhatIsDeclared(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"$2097153\r\n", "*99999999999999999999\r\n", "*2162689\r\n", "%1081345\r\n", "*2\r\n*2162687\r\n",
		"|1\r\n", "?\r\n", ":+1\r\n", "#x\r\n", "$1\r\nab\r\n", "\r\n", "*1\r\n>1\r\n", "=-1\r\n", "~-1\r\n",
		strings.Repeat("*1\r\n", limits.RedisReplyDepth+1),
		"-ASK 7\r\n", "-REDIRECT\r\n", "+PONG\r\n+PONG\r\n",
	} {
		g, err := asking(words("GET", "x"))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.replies.feed([]byte(reply)); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%.40q is let through: %v", reply, err)
		}
	}
	for _, c := range []struct{ request, reply string }{
		{words("SSUBSCRIBE", "x"), "+QUEUED\r\n"},
		{words("SSUBSCRIBE", "x"), "-QUEUED\r\n"},
		{words("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), "*1\r\n$1\r\nx\r\n"},
		{words("SUBSCRIBE", "+sentinel"), ">3\r\n$7\r\nmessage\r\n$9\r\n+sentinel\r\n$1\r\nx\r\n"},
		{words("GET", "x"), ">3\r\n$10\r\nssubscribe\r\n$1\r\nx\r\n:1\r\n"},
		{words("SSUBSCRIBE", "x", "y"), ">3\r\n+ssubscribe\r\n+x\r\n:1\r\n>3\r\n+sunsubscribe\r\n+z\r\n:0\r\n"},
		{words("SSUBSCRIBE", "x", "y"), ">3\r\n+ssubscribe\r\n+x\r\n:1\r\n-ERR no more\r\n"},
		{words("SSUBSCRIBE", "x"), ">3\r\n*1\r\n+ssubscribe\r\n+x\r\n:1\r\n"},
		{words("UNSUBSCRIBE") + words("PING"), "+QUEUED\r\n"},
		{words("UNSUBSCRIBE") + words("PING"), "*1\r\n+PONG\r\n"},
	} {
		g, err := asking(words("HELLO", "3"), c.request)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.replies.feed([]byte("%0\r\n" + c.reply)); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%q to %q is let through: %v", c.reply, c.request, err)
		}
	}
}
