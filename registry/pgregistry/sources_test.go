package pgregistry

import (
	"errors"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/registry/driver"
)

// A CA and a mode may each come from the URL, a service or the environment, and what counts is what they
// come to together.
func TestACAIsUsedWhereverItComesFromOrTheMistakeIsTold(t *testing.T) {
	dir := t.TempDir()
	cert, _ := certificate(t)
	ca, services := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "services")
	text := "[loose]\nsslrootcert=" + ca + "\n[strict]\nsslmode=verify-full\nsslrootcert=" + ca + "\n[mode]\nsslmode=verify-ca\n"
	if err := errors.Join(os.WriteFile(ca, []byte(cert), 0o600), os.WriteFile(services, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, mode, root, service string
		says                     string // "": no error
	}{
		{url: "?sslrootcert=" + ca, says: "sslrootcert is given, and with sslmode=prefer"},
		{url: "?sslmode=allow&sslrootcert=" + ca, says: "sslrootcert is given, and with sslmode=allow"},
		{url: "?sslmode=disable&sslrootcert=" + ca, says: "sslrootcert is given, and with sslmode=disable"},
		{url: "?sslmode=require&sslrootcert=" + ca},
		{url: "?sslmode=verify-ca&sslrootcert=" + ca},
		{url: "?sslrootcert=" + ca, mode: "verify-full"},
		{url: "?sslmode=prefer&sslrootcert=" + ca, mode: "verify-full", says: "sslmode=prefer"},
		{url: "?sslrootcert=system"},
		{url: "?sslrootcert=" + ca + "&sslnegotiation=direct"}, // has pgx take prefer for require
		{root: ca, says: "PGSSLROOTCERT is given, and with sslmode=prefer"},
		{root: ca, mode: "allow", says: "PGSSLROOTCERT is given, and with sslmode=allow"},
		{root: ca, mode: "disable", says: "PGSSLROOTCERT is given, and with sslmode=disable"},
		{root: ca, mode: "verify-full"},
		{root: ca, url: "?sslmode=require"},
		{root: ca, url: "?sslmode=disable", says: "PGSSLROOTCERT is given, and with sslmode=disable"},
		{root: ca, url: "?sslmode=disable&sslrootcert="}, // the URL takes it back
		{service: "loose", says: "sslrootcert of the service is given, and with sslmode=prefer"},
		{service: "loose", mode: "verify-full"},
		{service: "strict"},
		{service: "strict", url: "?sslmode=allow", says: "sslrootcert of the service is given, and with sslmode=allow"},
		{service: "mode", url: "?sslrootcert=" + ca},
		{service: "mode", root: ca},
		{url: "?sslmode=verify-full&host=/run/none&sslrootcert=" + ca, says: "no sockets"},
		{url: "?sslmode=prefer"},
	} {
		t.Setenv("PGSERVICEFILE", services)
		t.Setenv("PGSSLMODE", c.mode)
		t.Setenv("PGSSLROOTCERT", c.root)
		t.Setenv("PGSERVICE", c.service)
		cfg := Config{URL: "postgres://127.0.0.1:1/db" + c.url}
		_, err := connConfig(&cfg)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What a service names is read like what the URL names.
func TestFilesOfAServiceThatOthersHaveAHandInAreRefused(t *testing.T) {
	dir := t.TempDir()
	path, services := filepath.Join(dir, "f"), filepath.Join(dir, "services")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o602)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGSERVICEFILE", services)
	for _, f := range files {
		if f.name == "servicefile" {
			continue
		}
		if err := os.WriteFile(services, []byte("[s]\n"+f.name+"="+path+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := Config{URL: "postgres://127.0.0.1:1/db?sslmode=verify-full&service=s"}
		if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), f.name+" of the service: other users can") {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	if err := os.Chmod(services, 0o602); err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: "postgres://127.0.0.1:1/db?service=s"}
	if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "servicefile: other users can") {
		t.Errorf("the services themselves: %v", err)
	}
}

// A list of keywords and values, which pgx would take, is no URL: nobody could say which of its words are
// secrets, or name files.
func TestAListOfKeywordsIsNoURL(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"host=127.0.0.1 password=hunter2", "dbname=x sslkey=/etc/hunter2", "mysql://me:hunter2@h/x"} {
		cfg := Config{URL: text}
		if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "expected postgres://") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Files that count although nobody names them are read like those that are named.
func TestFilesOfTheHomeThatOthersHaveAHandInAreRefused(t *testing.T) {
	t.Parallel()
	for _, f := range files {
		if f.home == "" {
			continue
		}
		home := t.TempDir()
		path := filepath.Join(home, f.home)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		check := func(query string, password, shared bool) error {
			q, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			return sources{query: q, home: home, password: password}.checkFiles(shared)
		}
		if err := check("", false, false); err != nil {
			t.Errorf("%s of this user alone: %v", f.name, err)
		}
		if err := os.Chmod(path, 0o602); err != nil {
			t.Fatal(err)
		}
		if err := check("", false, false); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "the default for "+f.name+": other users can") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s that others have a hand in: %v", f.name, err)
		}
		if err := check("", false, true); err != nil {
			t.Errorf("%s, shared: %v", f.name, err)
		}
		if err := check(f.name+"=", false, false); err != nil {
			t.Errorf("%s that the URL takes back: %v", f.name, err)
		}
		if err := check("sslmode=disable", true, false); err != nil {
			t.Errorf("%s that nothing needs: %v", f.name, err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := readSources("postgres://h/db", false); err != nil || s.home != me.HomeDir {
		t.Errorf("the home is %q, %v; expected %q", s.home, err, me.HomeDir)
	}
}
