package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rights are the commands that stand under a heading of docs/guide/security.md, so that the page and the
// tests say the same; replace are pairs of what the page calls something and what the test does.
func Rights(t testing.TB, heading string, replace ...string) []string {
	t.Helper()
	page := filepath.Join("docs", "guide", "security.md")
	for range 8 { // up from the folder of the package to that of the repository
		if _, err := os.Stat(page); err == nil {
			break
		}
		page = filepath.Join("..", page)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, under, _ := strings.Cut(string(text), "# "+heading+"\n")
	under, _, _ = strings.Cut(under, "\n#")
	var commands []string
	for line := range strings.Lines(under) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands = append(commands, strings.NewReplacer(replace...).Replace(strings.TrimSpace(command)))
		}
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no commands under %q", page, heading)
	}
	return commands
}
