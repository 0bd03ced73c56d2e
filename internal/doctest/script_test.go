package doctest

import (
	"fmt"
	"strings"
	"testing"
)

const example = `# Title

Text with ` + "`code`" + ` and [a link](other.md#place).

    printf 'a\n' | \
        ringfence produce t     # comment
    make test

1. An item, and what it shows:

       {"partition":3,"offset":42}

   more text.

` + "```yaml\na: 1\n\nb: 2\n```" + `

    $ ringfence topic list
    t  8 partitions

` + "```go\nx := 1\n```\n"

func TestAPageIsReadAsAScript(t *testing.T) {
	t.Parallel()
	page := parse("p.md", example)
	script, stale := steps(page, []Note{
		{Of: `printf 'a\n' | ringfence produce t`, Exit: 3},
		{Of: "a: 1", File: "f.yaml"},
		{Of: "ringfence topic list", Exit: 4},
	})
	var got []string
	for _, s := range script {
		got = append(got, fmt.Sprintf("%d %d %q exact %t exit %d", s.line, s.kind, s.text, s.exact, s.note.Exit))
	}
	want := []string{
		fmt.Sprintf(`5 %d "printf 'a\\n' | \\\n    ringfence produce t" exact false exit 3`, command),
		fmt.Sprintf(`7 %d "test" exact false exit 0`, target),
		fmt.Sprintf(`11 %d "{\"partition\":3,\"offset\":42}" exact false exit 0`, output),
		fmt.Sprintf(`16 %d "a: 1\n\nb: 2\n" exact false exit 0`, file),
		fmt.Sprintf(`21 %d "ringfence topic list" exact false exit 4`, command),
		fmt.Sprintf(`22 %d "t  8 partitions" exact true exit 0`, output),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(stale) > 0 {
		t.Errorf("got\n%s\nand %q; want\n%s", strings.Join(got, "\n"), stale, strings.Join(want, "\n"))
	}
	if l := fmt.Sprint(page.Links, page.Spans, page.Anchors); l != "[{3 other.md#place}] [{3 code}] map[title:true]" {
		t.Errorf("links, code and anchors are %s", l)
	}
}

func TestANoteWithoutItsLineIsStale(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"ringfence topic lists", "c: 2", "make test "} {
		if _, stale := steps(parse("p.md", example), []Note{{Of: of}}); len(stale) != 1 {
			t.Errorf("%q: got %q; want one complaint", of, stale)
		}
	}
	if _, stale := steps(parse("p.md", example), []Note{{Of: "ringfence topic list"}, {Of: "ringfence topic list"}}); len(stale) != 1 {
		t.Errorf("a note too many: got %q; want one complaint", stale)
	}
}

func TestOutputHasItsShape(t *testing.T) {
	t.Parallel()
	const printed = "a\nline 38,100 of \"t\": sealed\n  K 5  end\n"
	for _, c := range []struct {
		line  string
		exact bool
		want  bool
	}{
		{`line 7 of "t": sealed`, false, true},
		{`line 7 of "t": sealed`, true, false},
		{`line 38,100 of "t": sealed`, true, true},
		{`line 7 … sealed`, false, true},
		{`line 7 of "u": sealed`, false, false},
		{"K 5 end", true, true},
		{"K 5", true, false},
	} {
		if got := shown(c.line, c.exact, printed); got != c.want {
			t.Errorf("%q, exact %t: got %t", c.line, c.exact, got)
		}
	}
}

// A shell keeps what its commands set; Ctrl-C ends a command, and not the shell.
func TestASessionIsOneShell(t *testing.T) {
	t.Parallel()
	s := open(t, "/nowhere", []string{"GIVEN=3"})
	run := func(command, stdin string, until []string, wantOut string, wantCode int) {
		t.Helper()
		out, code, err := s.run(command, stdin, until)
		if err != nil || out != wantOut || code != wantCode {
			t.Errorf("%s: printed %q, code %d, %v; want %q, code %d", command, out, code, err, wantOut, wantCode)
		}
	}
	run("x=1; export y=2; mkdir d && cd d", "", nil, "", 0)
	run("echo $x $y $GIVEN ${PWD##*/}; false | true", "", nil, "1 2 3 d\n", 1)
	run("cat", "typed", nil, "typed", 0)
	run(`sh -c 'echo go; exec cat'`, "", []string{"go"}, "go\n", 130)
	run(`(trap 'echo bye; exit 7' INT; echo ready; read line)`, "", []string{"ready"}, "ready\nbye\n", 7)
	run("echo $x", "", nil, "1\n", 0)
	if _, _, err := s.run("true", "", []string{"never"}); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("a command that ends before Ctrl-C: got %v; want a complaint", err)
	}
}
