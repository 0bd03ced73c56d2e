package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are all pages of the checkout, those of other modules too.
func documents(t *testing.T, root string) (all []*Page) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "changelog/*.md", "*/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			p, err := Read(root, strings.TrimPrefix(f, root+"/"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	return all
}

// foreign are flags of other programs that the documentation names.
var foreign = []string{"--auto-compaction-mode", "--auto-compaction-retention", "--bump-revision", "--mark-compacted", "--reflink", "--link-dest", "--inplace", "--max-txn-ops"}

// flags are those of a command and of all below it, as its own help tells them.
func flags(t *testing.T, known map[string][]string, command string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ringfence", append(strings.Fields(command), "--help")...).Output()
	if err != nil {
		t.Fatalf("ringfence %s --help: %v", command, err)
	}
	known[command] = regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(string(out), -1)
	_, usage, _ := strings.Cut(string(out), "\nUsage:\n")
	for _, section := range strings.Split(usage, "\n\n") {
		title, commands, _ := strings.Cut(section, "\n")
		if slices.Contains([]string{"Examples:", "Flags:", "Global Flags:", "Aliases:", "Additional help topics:"}, title) {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]+) `).FindAllStringSubmatch(commands, -1) {
			if !slices.Contains([]string{"help", "completion", "config", "ringfence"}, m[1]) {
				flags(t, known, strings.TrimSpace(command+" "+m[1]))
			}
		}
	}
}

// wrong says what is wrong with code that begins with a command of the program, or that names a flag.
func wrong(known map[string][]string, text string) string {
	fields := strings.Fields(text)
	named := len(fields) > 0 && strings.HasPrefix(fields[0], "ringfence")
	if named {
		fields = fields[1:]
	}
	command := ""
	for len(fields) > 0 && known[strings.TrimSpace(command+" "+fields[0])] != nil {
		command, fields = strings.TrimSpace(command+" "+fields[0]), fields[1:]
	}
	group := false
	for c := range known {
		group = group || command == "" || strings.HasPrefix(c, command+" ")
	}
	if named && group && len(fields) > 0 && regexp.MustCompile(`^[a-z-]+$`).MatchString(fields[0]) {
		return fmt.Sprintf("the program has no command %q", strings.TrimSpace(command+" "+fields[0]))
	}
	for _, f := range regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)(?:[^a-z…-]|$)`).FindAllStringSubmatch(text, -1) {
		some := slices.Contains(foreign, f[1])
		for _, all := range known {
			some = some || slices.Contains(all, f[1])
		}
		if command != "" && !slices.Contains(known[command], f[1]) || command == "" && !some && (named || strings.HasPrefix(text, "--")) {
			return fmt.Sprintf("%q has no flag %s", command, f[1])
		}
	}
	return ""
}

func TestCommandsAndFlagsInProseExist(t *testing.T) {
	t.Parallel()
	known, root := map[string][]string{}, Root(t)
	flags(t, known, "")
	if len(known) < 30 || !slices.Contains(known["topic create"], "--partitions") {
		t.Fatalf("%d commands, topic create with %q: the help is not read as it is written", len(known), known["topic create"])
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range documents(t, root) {
		if p.Path == "docs/formats.md" || p.Path == "CHANGELOG.md" {
			continue // names in stores look like commands and flags; the changelog names what is gone
		}
		for _, s := range p.Spans {
			if complaint := wrong(known, s.Text); complaint != "" {
				t.Errorf("%s:%d: `%s`: %s", p.Path, s.Line, s.Text, complaint)
			}
			if target, ok := strings.CutPrefix(s.Text, "make "); ok && !strings.Contains(string(makefile), "\n"+strings.Fields(target)[0]+":") {
				t.Errorf("%s:%d: `%s`: the Makefile has no such target", p.Path, s.Line, s.Text)
			}
		}
	}
	for text, bad := range map[string]bool{
		"ringfence topic create t --partitions 3": false, "ringfence topic crate": true, "ringfence tpoic": true, "topic create --partitoins": true,
		"cp --reflink": false, "ringfence --dta d": true, "--durabilty os": true, "topic create --retention-…": false, "group": false,
	} {
		if got := wrong(known, text); (got != "") != bad {
			t.Errorf("%s: got %q; want a complaint: %t", text, got, bad)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	root := Root(t)
	for _, p := range documents(t, root) {
		for _, l := range p.Links {
			if complaint := dead(root, p, l.Text); complaint != "" {
				t.Errorf("%s:%d: %s", p.Path, l.Line, complaint)
			}
		}
	}
	p := &Page{Path: "docs/guide/p.md", Anchors: map[string]bool{"here": true}}
	for link, bad := range map[string]bool{"#here": false, "#there": true, "ring.md#two-modes": false, "ring.md#three-modes": true, "../nothing.md": true, "https://example.org/x": false} {
		if got := dead(root, p, link); (got != "") != bad {
			t.Errorf("%s: got %q; want a complaint: %t", link, got, bad)
		}
	}
}

// dead says what a link of a page misses. Links to other hosts are not followed.
func dead(root string, page *Page, link string) string {
	if strings.Contains(link, "://") {
		return ""
	}
	path, fragment, _ := strings.Cut(link, "#")
	if path != "" {
		path = filepath.Join(filepath.Dir(page.Path), path)
		if _, err := os.Stat(filepath.Join(root, path)); err != nil || fragment == "" {
			return map[bool]string{true: link + " leads nowhere"}[err != nil]
		}
		target, err := Read(root, path)
		if err != nil {
			return err.Error()
		}
		page = target
	}
	if !page.Anchors[fragment] {
		return fmt.Sprintf("%s: %s has no such heading", link, page.Path)
	}
	return ""
}
