package doctest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/cli"
)

// leakless runs tests as goleak.VerifyTestMain does, and lets testscript.Main be what runs them.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"ringfence": func() { os.Exit(cli.Main("ringfence", backends.All())) },
		"endpoint":  func() { endpoint() },
	})
}

// endpoint takes signed records, but for one, and prints its URL.
func endpoint() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Webhook-Signature") == "" || string(body) == "broken" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write(body) // a client that has gone needs no answer
		}
	}))
	fmt.Println(s.URL)
	select {}
}

// TestPages runs every page whose script is in testdata.
func TestPages(t *testing.T) {
	t.Parallel()
	Run(t, "testdata")
}

// Every page that shows commands has a script that runs all of it. That of Pulsar is in its own module.
func TestEachPageHasItsScript(t *testing.T) {
	t.Parallel()
	root := Root(t)
	guides, err := filepath.Glob(filepath.Join(root, "docs/guide/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(guides, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		page, _ := filepath.Rel(root, path)
		Compiled(t, page)
		script := filepath.Join("testdata", strings.TrimSuffix(filepath.Base(path), ".md")+".txtar")
		switch filepath.Base(path) {
		case "pulsar.md":
			script = filepath.Join(root, "commitlog/pulsarlog/cmd/ringfence-pulsar/testdata/pulsar.txtar")
		case "cli-reference.md":
			continue // generated from the commands themselves
		}
		text, err := os.ReadFile(script)
		if err != nil {
			t.Errorf("%s has no script: %v", page, err)
			continue
		}
		body, _, _ := strings.Cut(string(text), "\n-- ")
		if lines := strings.Fields(body); len(lines) < 3 || lines[0] != "page" || lines[1] != page || lines[len(lines)-1] != "end" {
			t.Errorf("%s: expected it to begin with \"page %s\" and to end with \"end\"", script, page)
		}
	}
}
