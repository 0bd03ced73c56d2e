package sqlregistry

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

func TestThePasswordFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	cfg := newDatabase(t)
	exec := asRoot(t, cfg)
	user := "pf" + strings.TrimPrefix(cfg.DBName, "ringfence_")
	exec("CREATE USER %s@'%%' IDENTIFIED BY 'first'", user)
	t.Cleanup(func() { exec("DROP USER %s@'%%'", user) })
	exec("GRANT ALL ON %s.* TO %s@'%%'", cfg.DBName, user)
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	u := &url.URL{Scheme: "mysql", User: url.User(user), Host: cfg.Addr, Path: "/" + cfg.DBName}
	q := url.Values{"password-file": {file}}
	if cfg.Net == "unix" {
		u.Host = ""
		q.Set("socket", cfg.Addr)
	} else if _, _, err := net.SplitHostPort(cfg.Addr); err != nil {
		t.Fatal(err)
	}
	u.RawQuery = q.Encode()
	r, err := OpenURL(t.Context(), u, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	exec("ALTER USER %s@'%%' IDENTIFIED BY 'second'", user)
	write("second\n")
	exec("KILL HARD USER %s@'%%'", user)
	await(t, func() bool { _, err := r.List(t.Context(), ""); return err == nil })
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenURL(t.Context(), u, driver.Options{}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestStrictTLSRefusesALoginThatMayGoInTheClear(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?tls=preferred"} {
		u, err := url.Parse("mysql://me:hunter2@192.0.2.1/db" + query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, driver.Options{StrictTLS: true})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "without TLS") {
			t.Errorf("%s: %v", query, err)
		}
	}
}
