package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/visible"
)

func TestTablesAlignTheirColumns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	v := visible.New(&out)
	r := &report{out: v, colour: true}
	r.table([]string{"NAME", "COUNT", "WHY"}, [][]cell{
		{left("zürich"), number(1234567), left("x")},
		{styled(red, left("b")), number(-5), left("")},
	})
	want := "\x1b[1mNAME\x1b[0m        \x1b[1mCOUNT\x1b[0m  \x1b[1mWHY\x1b[0m\n" +
		"zürich  1,234,567  x\n" +
		"\x1b[31mb\x1b[0m              -5\n"
	if _, err := io.WriteString(v, r.String()); err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
	}
}

// A stranger writes the key of a record; what is printed of the others must not grow by it.
func TestTableKeepsRowsNarrowBesideALongText(t *testing.T) {
	t.Parallel()
	v := visible.New(io.Discard)
	for name, long := range map[string]string{"letters": strings.Repeat("k", 32<<10), "shown": strings.Repeat("\x1b", 32<<10)} {
		r := &report{out: v}
		rows := [][]cell{{left(long), right(long), left("whole")}}
		for range 50 {
			rows = append(rows, []cell{left("k"), right("1"), left("x")})
		}
		r.table([]string{"KEY", "COUNT", "WHY"}, rows)
		lines := strings.Split(r.String(), "\n")
		if want := v.Line(long); lines[1] != want+"  "+want+"  whole" {
			t.Errorf("%s: a long text is not shown whole", name)
		}
		for _, l := range append(lines[:1:1], lines[2:]...) {
			if len(l) > 2*widest+20 {
				t.Fatalf("%s: a row beside a long text has %d bytes", name, len(l))
			}
		}
	}
}

func TestNearestFindsTyposAndNothingElse(t *testing.T) {
	t.Parallel()
	list := []string{"group", "partitions", "idle-exit", "max", "format", "top", "topic", "topics"}
	for word, want := range map[string]string{
		"grop": "group", "partitoins": "partitions", "part": "partitions", "idle_exit": "idle-exit", "mx": "max", "zebra": "", "topc": "top or topic",
	} {
		if got := nearest(word, list); got != want {
			t.Errorf("nearest to %q is %q; expected %q", word, got, want)
		}
	}
}

func asIs(sequence string) string { return sequence }

func TestFitNeverExceedsTheScreen(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("line\n", 100)
	if got := strings.Count(fit(text, 24, asIs), "\r\n"); got != 22 {
		t.Errorf("%d line ends on a screen of 24 lines; expected 22", got)
	}
	if got := fit("a\nb\n", 24, asIs); got != "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J" {
		t.Errorf("got %q", got)
	}
}
