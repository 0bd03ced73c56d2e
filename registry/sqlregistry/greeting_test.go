package sqlregistry

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// says is a port where every caller hears the same, and nothing more.
func says(t *testing.T, text string) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
			_, _ = c.Write([]byte(text))
		}
		for _, c := range open {
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().(*net.TCPAddr)
}

func TestAPortThatSpeaksSomethingElseIsToldSoon(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"nothing": "", "SSH": "SSH-2.0-OpenSSH_9.2\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mysql.NewConfig()
			c.Net, c.Addr, c.DBName, c.User = "tcp", says(t, text).String(), "db", "rf"
			// Far more than it takes, and less than the 70 s of a client that waits for ever.
			ctx, cancel := context.WithTimeout(t.Context(), 5*greeting)
			defer cancel()
			_, err := Open(ctx, Config{MySQL: c, Options: driver.Options{}})
			if ctx.Err() != nil || !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "expected a MariaDB") || !strings.Contains(err.Error(), c.Addr) {
				t.Error(err)
			}
		})
	}
}

func TestWhoGivesUpFirstIsNotToldOfAGreeting(t *testing.T) {
	t.Parallel()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User = "tcp", says(t, "").String(), "rf"
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := (&mysqlConnector{c, greeting, nil}).Connect(ctx); err == nil || errors.Is(err, errNoGreeting) {
		t.Errorf("%v", err)
	}
}
