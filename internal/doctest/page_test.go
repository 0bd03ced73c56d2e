package doctest

import (
	"fmt"
	"slices"
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

func TestPageIsReadAsSteps(t *testing.T) {
	t.Parallel()
	p := parse("p.md", example)
	var got []string
	for _, s := range p.steps() {
		got = append(got, fmt.Sprint(s.line, " ", s.text, " ", s.command, s.exact))
	}
	want := []string{
		`5 printf 'a\n' | ringfence produce t true false`, `7 make test true false`, `11 {"partition":3,"offset":42} false false`,
		`16 a: 1 false false`, `18 b: 2 false false`, `21 ringfence topic list true false`, `22 t  8 partitions false true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if l := fmt.Sprint(p.Links, p.Spans, p.Anchors); l != "[{3 other.md#place}] [{3 code}] map[title:true]" {
		t.Errorf("links, code and anchors are %s", l)
	}
}

func TestShownComparesShapes(t *testing.T) {
	t.Parallel()
	const printed = "a\nline 38,100 of \"t\": sealed\n  K 5  end\n"
	for _, c := range []struct {
		line        string
		exact, want bool
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
