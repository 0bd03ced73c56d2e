package doctest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
)

// Play is how a page is run.
type Play struct {
	Page        string   // below the root of the checkout
	Path        string   // the folder of the programs that it uses
	Env         []string // of its shell
	Substitutes []Substitute
	Notes       []Note
	Needs       map[string][]string // by heading: the servers without which nothing below it is run
}

// Substitute is a text in commands that stands for something else: a server or a file of the reader's,
// a part that the page leaves open.
type Substitute struct {
	Text   string
	Server string // of testserver; a command with the text is not run without it
	For    string // $URL in it is the server's URL; $HOST, $NAME, $PORT, $USER, $PASSWORD and $QUERY are parts of it
}

// Run runs a page, each command as a subtest that is named by its line.
func (p Play) Run(t *testing.T) {
	root := Root(t)
	page, err := Read(root, p.Page)
	if err != nil {
		t.Fatal(err)
	}
	script, stale := steps(page, p.Notes)
	for _, s := range stale {
		t.Error(s)
	}
	shell := open(t, p.Path, p.Env)
	told := ""
	for _, s := range script {
		t.Run(fmt.Sprintf("line %d", s.line), func(t *testing.T) {
			told += p.play(t, root, shell, s, told)
		})
	}
}

// play runs one step and returns what it printed; told is what those before it printed.
func (p Play) play(t *testing.T, root string, shell *session, s step, told string) string {
	where := fmt.Sprintf("%s:%d", p.Page, s.line)
	if s.note.Skip != "" {
		t.Logf("%s: not run: %s", where, s.note.Skip)
		return ""
	}
	text := s.text
	for _, server := range slices.Concat(s.note.Needs, p.Needs[s.section]) {
		testserver.URL(t, server)
	}
	for _, substitute := range p.Substitutes {
		if s.kind == command && strings.Contains(text, substitute.Text) {
			text = strings.ReplaceAll(text, substitute.Text, substitute.value(t))
		}
	}
	printed := p.aside(t, shell, s.note.Before)
	switch s.kind {
	case command:
		got, code, err := shell.run(text, s.note.Stdin, s.note.Until)
		if printed += got; err != nil {
			t.Fatalf("%s: %s: %v\n%s", where, text, err, end(got))
		}
		if code != s.note.Exit {
			t.Errorf("%s: %s: exit code %d; expected %d\n%s", where, text, code, s.note.Exit, end(got))
		}
		if lacks := missing(s.note.Want, got); lacks != "" {
			t.Errorf("%s: %s: expected %q in\n%s", where, text, lacks, end(got))
		}
	case output:
		if !shown(s.text, s.exact, told+printed) {
			t.Errorf("%s: %q is run by nobody: it is no command that internal/doctest knows, and nothing above has printed it; last was printed:\n%s", where, s.text, end(told+printed))
		}
	case file:
		if err := os.WriteFile(filepath.Join(shell.dir, s.note.File), []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
	case target:
		cmd := exec.CommandContext(t.Context(), "make", "-n", s.text)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: make %s: %v\n%s", where, s.text, err, out)
		}
	}
	return printed + p.aside(t, shell, s.note.After)
}

// aside runs commands that the page does not show; they have to succeed.
func (p Play) aside(t *testing.T, shell *session, commands string) string {
	t.Helper()
	if commands == "" {
		return ""
	}
	for _, substitute := range p.Substitutes {
		if strings.Contains(commands, substitute.Text) {
			commands = strings.ReplaceAll(commands, substitute.Text, substitute.value(t))
		}
	}
	// Subshells would lose what is set; && and the last code are what counts.
	out, code, err := shell.run(commands, "", nil)
	if err != nil || code != 0 {
		t.Fatalf("%s: exit code %d, %v\n%s", commands, code, err, end(out))
	}
	return out
}

func (s Substitute) value(t *testing.T) string {
	t.Helper()
	if s.Server == "" {
		return s.For
	}
	raw := testserver.URL(t, s.Server)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return strings.NewReplacer("$URL", raw, "$HOST", u.Host, "$NAME", u.Hostname(), "$PORT", u.Port(),
		"$USER", u.User.Username(), "$PASSWORD", password, "$QUERY", u.RawQuery).Replace(s.For)
}

// shown says whether a line of a page was printed: … stands for anything, and a number for any
// other unless the line is exact.
func shown(line string, exact bool, told string) bool {
	want := regexp.QuoteMeta(strings.TrimSpace(line))
	if !exact {
		want = regexp.MustCompile(`\d[\d,]*`).ReplaceAllString(want, `\d[\d,]*`)
	}
	want = strings.ReplaceAll(want, "…", ".*")
	want = regexp.MustCompile(`\s+`).ReplaceAllString(want, `\s+`)
	return regexp.MustCompile(`(?m)^\s*` + want + `\s*$`).MatchString(told)
}

// end is as much of what was printed as a reader wants to see.
func end(printed string) string {
	lines := strings.SplitAfter(printed, "\n")
	for i, l := range lines {
		lines[i] = l[max(0, len(l)-1000):]
	}
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// Root is the folder of the checkout that the test runs in.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "ARCHITECTURE.md")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("ARCHITECTURE.md is in no folder above the test's")
		}
		dir = up
	}
}

// Build builds the program at a path of its module into a folder that is returned.
func Build(t testing.TB, module, path string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "grpcnotrace", "-o", dir+"/", path)
	cmd.Dir = filepath.Join(Root(t), module)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return dir
}

// Compiled tells which Go code of a page is in no test of the checkout, word for word.
func Compiled(t testing.TB, page string) {
	t.Helper()
	root := Root(t)
	p, err := Read(root, page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range p.Blocks {
		if b.Lang == "go" && !b.in(t, root) {
			t.Errorf("%s:%d: this Go code is compiled by nobody: put it, as it stands, into an example_*_test.go that runs it", page, b.Line)
		}
	}
}

func (b Block) in(t testing.TB, root string) bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"example_*_test.go", "*/example_*_test.go", "*/*/example_*_test.go"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\n\t"+strings.ReplaceAll(strings.Join(b.Lines, "\n\t"), "\n\t\n", "\n\n")+"\n")
	})
}
