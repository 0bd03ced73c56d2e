package storeurl

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
)

func TestAPasswordFileIsForItsOwnerAloneAndNotShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, c := range []struct {
		text string
		mode os.FileMode
		want string // the password, or
		says string // what the error says
	}{
		{"hunter2\n", 0o600, "hunter2", ""},
		{"hunter2\r\n", 0o400, "hunter2", ""},
		{" hunter2 ", 0o600, " hunter2 ", ""},
		{"hunter2", 0o644, "", "(mode 0644"},
		{"hunter2", 0o602, "", "(mode 0602"},
		{"", 0o600, "", "expected one line"},
		{"\n", 0o600, "", "expected one line"},
		{"user\nhunter2\n", 0o600, "", "expected one line"},
		{strings.Repeat("hunter2", 1<<14), 0o600, "", "longer than"},
	} {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		got, err := ReadPassword(path)
		switch {
		case c.says == "" && (err != nil || got != c.want):
			t.Errorf("%q: %q, %v", c.text, got, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") || got != ""):
			t.Errorf("%.20q with mode %o: %v; expected that it names the file, and says %q", c.text, c.mode, err, c.says)
		}
		if check := CheckPassword(path); (check == nil) != (err == nil) || check != nil && !errors.Is(check, fault.Invalid) {
			t.Errorf("%.20q: looked at: %v", c.text, check)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, filepath.Join(dir, "absent")} {
		if _, err := ReadPassword(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAPasswordComesFromOnePlace(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis://h": "", "redis://me@h?password-file=/p": "/p",
		"redis://me:hunter2@h?password-file=/p": "!", "postgres://h?password=hunter2&password-file=/p": "!", "redis://h?password-file=": "!",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := FileOfPassword(u, u.Query())
		if want == "!" && (!errors.Is(err, fault.Invalid) || strings.Contains(err.Error(), "hunter2")) || want != "!" && (err != nil || got != want) {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
}

func TestALoginWithoutTLSIsToldOnceOrRefused(t *testing.T) {
	t.Parallel()
	var out testlog.Buffer
	log := out.Logger()
	for _, host := range []string{"", "localhost", "LOCALHOST:1", "127.0.0.9:5432", "::1", "[::1]:6379", "/run/postgresql", "[::ffff:127.0.0.1]:1"} {
		if err := Plaintext("here", []string{host}, true, log); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if out.String() != "" {
		t.Errorf("on this host: %s", out.String())
	}
	for _, host := range []string{"db:5432", "192.0.2.1", "[2001:db8::1]:6379", "localhost.example.org", "127.0.0.1.example.org"} {
		if err := Plaintext("there", []string{"localhost", host}, true, log); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), host) {
			t.Errorf("%s: strict: %v", host, err)
		}
		out.Reset()
		if err := Plaintext("there", []string{host, "192.0.2.2"}, false, log); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if n := strings.Count(out.String(), "without TLS"); n != 1 {
			t.Errorf("%s: told %d times", host, n)
		}
	}
}
