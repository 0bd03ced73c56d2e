package pgregistry

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/registry/driver"
)

// asks is a server that asks for a password, tells it, and refuses it.
func asks(t *testing.T) (address string, told <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	passwords, done := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(c, c)
			_, err = b.ReceiveStartupMessage()
			b.Send(&pgproto3.AuthenticationCleartextPassword{})
			if err == nil && b.Flush() == nil {
				if m, err := b.Receive(); err == nil {
					if p, ok := m.(*pgproto3.PasswordMessage); ok {
						passwords <- p.Password
					}
				}
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "refused"})
				_ = b.Flush()
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), passwords
}

func TestThePasswordFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	address, told := asks(t)
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	cfg := Config{URL: "postgres://rf@" + address + "/rf?sslmode=disable", PasswordFile: file}
	cc, err := connConfig(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &store{conn: cc, passwordFile: file}
	if err := s.openPool(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	defer s.pool.Close()
	for _, want := range []string{"first", "second"} {
		write(want + "\n")
		if _, err := s.connect(t.Context(), s.conn); err == nil {
			t.Fatal("connected")
		}
		if got := <-told; got != want {
			t.Errorf("logged in with %q; the file has %q", got, want)
		}
		if _, err := s.pool.Acquire(t.Context()); err == nil {
			t.Fatal("connected")
		}
		if got := <-told; got != want {
			t.Errorf("the pool logged in with %q; the file has %q", got, want)
		}
		for len(told) > 0 { // a second host of the same name
			<-told
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.connect(t.Context(), s.conn); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "second") {
		t.Errorf("a file that others can read: %v", err)
	}
	if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestStrictTLSRefusesALoginThatMayGoInTheClear(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"postgres://rf:x@db/rf?sslmode=disable": false, "postgres://rf:x@db/rf": false, "postgres://rf:x@db/rf?sslmode=allow": false,
		"postgres://rf:x@localhost,db/rf?sslmode=prefer": false, "postgres://rf:x@db/rf?sslmode=require": true,
		"postgres://rf@db/rf?sslmode=disable&passfile=/nowhere": true, "postgres://rf:x@127.0.0.1/rf": true, "postgres://rf:x@/rf?host=/run/postgresql": true,
	} {
		cfg := Config{URL: url, Options: driver.Options{StrictTLS: true}}
		if _, err := connConfig(&cfg); (err == nil) != want || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "without TLS")) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
