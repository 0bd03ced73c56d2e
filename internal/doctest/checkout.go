package doctest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ringfence/ringfence/internal/testserver"
)

// served is the condition of a server: [redis]. RINGFENCE_REQUIRE demands those that it lists.
func served(server string) (bool, error) {
	if server == "" || os.Getenv("RINGFENCE_"+strings.ToUpper(server)+"_URL") != "" {
		return true, nil
	}
	if slices.Contains(strings.Split(os.Getenv("RINGFENCE_REQUIRE"), ","), server) {
		return false, fmt.Errorf(`RINGFENCE_%s_URL is not set: make services, then eval "$(scripts/services env)"`, strings.ToUpper(server))
	}
	return false, nil
}

// parts gives a script the URL of a server and its parts: $REDIS_URL, $REDIS_HOST, $REDIS_NAME …
func parts(e *testscript.Env, server, raw string) {
	e.Setenv(server+"_URL", raw)
	if u, err := url.Parse(raw); err == nil {
		password, _ := u.User.Password()
		for name, value := range map[string]string{
			"HOST": u.Host, "NAME": u.Hostname(), "PORT": u.Port(), "USER": u.User.Username(), "PASSWORD": password, "QUERY": u.RawQuery,
		} {
			e.Setenv(server+"_"+name, value)
		}
	}
}

// Root is the folder of the checkout that the test runs in.
func Root(t testing.TB) string {
	t.Helper()
	return filepath.Dir(testserver.Above(t, "ARCHITECTURE.md"))
}

// Compiled tells which Go code of a page is in no example of the checkout, word for word.
func Compiled(t testing.TB, page string) {
	t.Helper()
	root := Root(t)
	p, err := Read(root, page)
	if err != nil {
		t.Fatal(err)
	}
	var examples strings.Builder
	for _, pattern := range []string{"example_*_test.go", "*/example_*_test.go", "*/*/example_*_test.go"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			examples.Write(text)
		}
	}
	for _, b := range p.Blocks {
		code := "\n\t" + strings.ReplaceAll(strings.Join(b.Lines, "\n\t"), "\n\t\n", "\n\n") + "\n"
		if b.Lang == "go" && !strings.Contains(examples.String(), code) {
			t.Errorf("%s:%d: no test compiles this Go code: put it, as it stands, into an example_*_test.go that runs it", page, b.Line)
		}
	}
}
