package testserver

import (
	"os"
	"strings"
	"testing"
)

// Rights are the commands under a heading of docs/guide/security.md; replace are pairs of the page's words and the test's.
func Rights(t testing.TB, heading string, replace ...string) []string {
	t.Helper()
	page := Above(t, "docs/guide/security.md")
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
