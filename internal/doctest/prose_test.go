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

// foreign are flags of other programs that the documentation names.
var foreign = []string{
	"--auto-compaction-mode", "--auto-compaction-retention", "--bump-revision", "--mark-compacted",
}

// words are the commands and flags of the program, as its own help tells them.
type words map[string][]string // by command, without the program's name

// learn asks the program for the help of a command and of all below it.
func (w words) learn(t *testing.T, program, command string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append(strings.Fields(command), "--help")...).Output()
	if err != nil {
		t.Fatalf("%s %s --help: %v", program, command, err)
	}
	_, help, ok := strings.Cut(string(out), "\nUsage:\n  "+strings.TrimSpace("ringfence "+command))
	if !ok {
		t.Fatalf("the help of %q is that of another command:\n%s", command, out)
	}
	w[command] = regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(help, -1)
	below := false
	for line := range strings.Lines(help) {
		switch {
		case !strings.HasPrefix(line, " ") && strings.TrimSpace(line) != "":
			below = !slices.Contains([]string{"Aliases:", "Examples:", "Flags:", "Global Flags:", "Additional help topics:"}, strings.TrimSpace(line))
		case below && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   "):
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" && name != "config" {
				w.learn(t, program, strings.TrimSpace(command+" "+name))
			}
		}
	}
}

// wrong says what is wrong with code in prose that begins with a command of the program, or that
// names a flag; nothing when it is neither.
func (w words) wrong(code string) string {
	fields := strings.Fields(code)
	named := len(fields) > 0 && fields[0] == "ringfence"
	if named || len(fields) > 0 && fields[0] == "ringfence-pulsar" {
		fields, named = fields[1:], true
	}
	command := ""
	for len(fields) > 0 && w[strings.TrimSpace(command+" "+fields[0])] != nil {
		command, fields = strings.TrimSpace(command+" "+fields[0]), fields[1:]
	}
	if named && len(fields) > 0 && regexp.MustCompile(`^[a-z-]+$`).MatchString(fields[0]) && (command == "" || w.group(command)) {
		return fmt.Sprintf("the program has no command %q", strings.TrimSpace(command+" "+fields[0]))
	}
	for _, flag := range regexp.MustCompile(`(^|\s)(--[a-z][a-z-]*)([^a-z…-]|$)`).FindAllStringSubmatch(code, -1) {
		if command != "" && !slices.Contains(w[command], flag[2]) {
			return fmt.Sprintf("%q has no flag %s", command, flag[2])
		}
		if command == "" && (named || strings.HasPrefix(code, "--")) && !slices.Contains(foreign, flag[2]) && !w.some(flag[2]) {
			return "no command has a flag " + flag[2]
		}
	}
	return ""
}

// group says whether a command only holds others.
func (w words) group(command string) bool {
	for c := range w {
		if strings.HasPrefix(c, command+" ") {
			return true
		}
	}
	return false
}

func (w words) some(flag string) bool {
	for _, flags := range w {
		if slices.Contains(flags, flag) {
			return true
		}
	}
	return false
}

// documents are all pages of the checkout, those of other modules too.
func documents(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			all = append(all, strings.TrimPrefix(f, root+"/"))
		}
	}
	return all
}

func TestCommandsAndFlagsInProseExist(t *testing.T) {
	t.Parallel()
	root := Root(t)
	w := words{}
	w.learn(t, filepath.Join(Build(t, ".", "./cmd/ringfence"), "ringfence"), "")
	if len(w) < 30 || !slices.Contains(w["topic create"], "--partitions") {
		t.Fatalf("%d commands, topic create with %q: the help is not read as it is written", len(w), w["topic create"])
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	strange := map[string]bool{}
	for _, path := range documents(t, root) {
		page, err := Read(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "docs/formats") {
			continue // names in stores and settings of servers look like commands and flags
		}
		for _, s := range page.Spans {
			for _, flag := range foreign {
				strange[flag] = strange[flag] || strings.Contains(s.Text, flag)
			}
			if wrong := w.wrong(s.Text); wrong != "" {
				t.Errorf("%s:%d: `%s`: %s", path, s.Line, s.Text, wrong)
			}
			if m := makes.FindStringSubmatch(s.Text); m != nil && !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s:%d: `%s`: the Makefile has no such target", path, s.Line, s.Text)
			}
		}
	}
	for _, flag := range foreign {
		if !strange[flag] {
			t.Errorf("no page names %s, a flag of another program: drop it", flag)
		}
	}
	for code, bad := range map[string]bool{
		"ringfence topic create t --partitions 3": false, "ringfence topic crate": true, "ringfence tpoic": true, "topic create --partitoins": true,
		"cp --reflink": false, "ringfence --dta d": true, "--durability os": false, "--durabilty os": true, "topic create --retention-…": false, "ringfence consume t --group g": false, "group": false,
	} {
		if got := w.wrong(code); (got != "") != bad {
			t.Errorf("%s: got %q; want a complaint: %t", code, got, bad)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	root := Root(t)
	for _, path := range documents(t, root) {
		page, err := Read(root, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Links {
			if wrong := dead(root, page, l.Text); wrong != "" {
				t.Errorf("%s:%d: %s", path, l.Line, wrong)
			}
		}
	}
	page, err := Read(root, "docs/guide/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	for link, bad := range map[string]bool{"#redis": false, "#radish": true, "ring.md#two-modes": false, "ring.md#three-modes": true, "../nothing.md": true, "https://example.org/x": false} {
		if got := dead(root, page, link); (got != "") != bad {
			t.Errorf("%s: got %q; want a complaint: %t", link, got, bad)
		}
	}
}

// dead says what a link of a page misses. Where other hosts lead is not looked at.
func dead(root string, page *Page, link string) string {
	if strings.Contains(link, "://") {
		return ""
	}
	path, fragment, _ := strings.Cut(link, "#")
	target := page
	if path != "" {
		path = filepath.Join(filepath.Dir(page.Path), path)
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			return link + ": " + err.Error()
		}
		if fragment == "" {
			return ""
		}
		var err error
		if target, err = Read(root, path); err != nil {
			return link + ": " + err.Error()
		}
	}
	if !target.Anchors[fragment] {
		return fmt.Sprintf("%s: %s has no such heading", link, target.Path)
	}
	return ""
}
