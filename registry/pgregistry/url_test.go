package pgregistry

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

func TestWrongURLsAreRefusedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://me:hunter2@127.0.0.1:1/db?work_mem=64MB":                                             "work_mem",
		"postgres://me:hunter2@127.0.0.1:1/db?scheme=x":                                                  "scheme",
		"postgres://me:hunter2@127.0.0.1:1/db?default_query_exec_mode=exec":                              "default_query_exec_mode",
		"postgres://me:hunter2@127.0.0.1:1/db?schema=a-b":                                                "schema",
		"postgres://me:hunter2@127.0.0.1:1/db?pool_max_conns=none":                                       "pool_max_conns",
		"postgres://me:hunter2@127.0.0.1:1/db?pool_max_conns=0":                                          "pool_max_conns",
		"postgres://me:hunter2@127.0.0.1:1/db?sslmode=maybe":                                             "sslmode",
		"postgres://me:hunter2@127.0.0.1:1/db?sslrootcert=/none":                                         "open /none",
		"postgres://me:hunter2@127.0.0.1:1/db?sslrootcert=/none&sslmode=allow":                           "open /none",
		"postgres://me:hunter2@127.0.0.1:1/db?connect_timeout=soon":                                      "connect_timeout",
		"postgres://me:hunter2@127.0.0.1:1/db?sslmode=verify-full&sslrootcert=/none&sslpassword=hunter3": "none",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, driver.Options{})
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: error %v", want, err)
			continue
		}
		if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%v: shows a secret", err)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not name %s", err, want)
		}
	}
}

func TestAnUnreachableServerIsUnavailableAndThePasswordStaysHidden(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("postgres://me:hunter2@127.0.0.1:1/db") // tried with TLS and without
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenURL(t.Context(), u, driver.Options{})
	if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("error %v", err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || strings.Count(text, "refused") != 1 {
		t.Errorf("error %q; expected one line, and each reason once", text)
	}
}

func TestAURLNamesTheSchemaAndTheSizeOfThePool(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("schema", d.schema)
	q.Set("pool_max_conns", "1")
	q.Set("application_name", strings.Repeat("ü", 40))
	u.RawQuery = q.Encode()
	r, err := OpenURL(t.Context(), u, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put(t, d.open(t, driver.Options{}), "\x00k", "v") // the namespace "" ends with a NUL
	if e, err := r.Get(t.Context(), "k"); err != nil || string(e.Value) != "v" {
		t.Errorf("%+v, %v", e, err)
	}
}

// The tag has to reach the server as it is: by it others see that the process lives.
func TestAnyNameOfConnectionsLeavesTheTagItsPlace(t *testing.T) {
	t.Parallel()
	own := tag(1<<62 + 1)
	for users, want := range map[string]string{
		"":                      own,
		"billing":               "billing " + own,
		"Büro\n\xff":            "B?ro?? " + own,
		strings.Repeat("ü", 80): strings.Repeat("?", 62-len(own)) + " " + own,
	} {
		if got := appName(users, 1<<62+1); got != want || len(got) > 63 {
			t.Errorf("%q becomes %q; expected %q", users, got, want)
		}
	}
}

func TestAConnectionStringThatIsNoneKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"postgres://me:hunter2@[::1", "host=h password=hunter2 port=x", "hunter2", "postgres://me:hun`ter2@h:x/"} {
		_, err := Open(t.Context(), Config{URL: text})
		if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// A list of keywords and values, which pgx would take, has secrets that can't be told from the rest.
func TestAListOfKeywordsIsNoURL(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"host=127.0.0.1 password=hunter2", "dbname=x sslkey=/etc/hunter2", "mysql://me:hunter2@h/x"} {
		cfg := Config{URL: text}
		if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "expected postgres://") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestACAThatVerifiesNoServerIsRefused(t *testing.T) {
	cert, _ := certificate(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(cert), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, mode, root, says string }{
		{url: "?sslrootcert=" + ca, says: "sslrootcert is given, but with sslmode=prefer"},
		{url: "?sslmode=allow&sslrootcert=" + ca, says: "sslmode=allow"},
		{url: "?sslmode=disable&sslrootcert=" + ca, says: "sslmode=disable"},
		{url: "?sslmode=require&sslrootcert=" + ca},
		{url: "?sslmode=verify-ca&sslrootcert=" + ca},
		{url: "?sslrootcert=" + ca, mode: "verify-full"},
		{url: "?sslrootcert=system"},
		{root: ca, says: "PGSSLROOTCERT is given, but with sslmode=prefer"},
		{root: ca, mode: "verify-full"},
		{root: ca, url: "?sslmode=disable&sslrootcert="}, // the URL takes it back
	} {
		t.Setenv("PGSSLROOTCERT", c.root)
		t.Setenv("PGSSLMODE", c.mode)
		cfg := Config{URL: "postgres://127.0.0.1:1/db" + c.url}
		_, err := connConfig(&cfg)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAKeyThatOthersCanReadIsRefusedUnlessShared(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o604)); err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: "postgres://127.0.0.1:1/db?sslmode=verify-full&sslkey=" + path}
	if _, err := connConfig(&cfg); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v; expected that the key is refused", err)
	}
	cfg.AllowShared = true
	if _, err := connConfig(&cfg); err != nil && strings.Contains(err.Error(), "other users") {
		t.Errorf("shared: %v", err)
	}
}
