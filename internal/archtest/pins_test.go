package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	unpinned   = regexp.MustCompile(`@latest\b|@main\b|@master\b|\b(curl|wget)\b|\bgo (get|install) [^@\n]+$|\b(npm|pip3?|cargo) install\b`)
	goInstall  = regexp.MustCompile(`@(v[0-9]+\.[0-9]+\.[0-9]+|\$\([A-Z]+_VERSION\))$`)
	mavenFirst = regexp.MustCompile(`^\s*(?:[a-z0-9_]+\(\) \{ )?maven "?(\S+?)"? \S`)
)

// checkPins gives a line for each download in a script that may bring something else tomorrow. What
// Debian brings is signed, what Go brings is in go.sum or, for a version, in the checksum database.
func checkPins(path, text string) []string {
	var bad []string
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "# ")
		if unpinned.MatchString(line) || strings.Contains(line, "$(GO) install ") && !goInstall.MatchString(line) {
			bad = append(bad, fmt.Sprintf("%s:%d downloads what is not pinned: %s", path, i+1, strings.TrimSpace(line)))
		}
	}
	return bad
}

func TestWhatIsDownloadedIsPinned(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"Makefile", ".ci/*", "scripts/*", "scripts/services.d/*.sh"} {
		more, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %v, %v", pattern, more, err)
		}
		files = append(files, more...)
	}
	jars := 0
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkPins(path, string(text)))
		for line := range strings.Lines(string(text)) {
			m := mavenFirst.FindStringSubmatch(line)
			if m == nil || filepath.Ext(path) != ".sh" {
				continue
			}
			jars++
			folder := m[1]
			if name, ok := strings.CutPrefix(folder, "$"); ok {
				folder = regexp.MustCompile(`(?m)^` + name + `=(\S+)$`).FindStringSubmatch(string(text))[1]
			}
			list, err := os.ReadFile(filepath.Join(root(t), "scripts/services.d", folder+".sha256"))
			if err != nil || !regexp.MustCompile(`\A([0-9a-f]{64}  \S+\.jar\n)+\z`).Match(list) {
				t.Errorf("%s: jars of %s without a list of their checksums: %v", path, folder, err)
			}
		}
	}
	if jars != 3 {
		t.Errorf("%d sets of jars were found; expected those of H2, Kafka and Pulsar", jars)
	}
}

func TestPinCheckNoticesWhatIsNotPinned(t *testing.T) {
	t.Parallel()
	for line, bad := range map[string]bool{
		"go install x.org/y@latest":            true,
		"	$(GO) install x.org/y":               true,
		"	$(GO) install x.org/y@$(Y_VERSION)":  false,
		"go install x.org/y@v1.2.3":            false,
		"curl -fsSL https://x.org/y | sh":      true,
		"pip install x":                        true,
		"apt-get install -y x":                 false,
		"x # curl is not there on all systems": false,
	} {
		if got := checkPins("p", line); (len(got) > 0) != bad {
			t.Errorf("%s: %v; expected a complaint: %v", line, got, bad)
		}
	}
}
