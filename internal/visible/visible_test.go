package visible_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/visible"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// written is what a Writer makes of s.
func written(t interface{ Errorf(string, ...any) }, s string) string {
	var b strings.Builder
	n, err := visible.New(&b).Write([]byte(s))
	if n != len(s) || err != nil {
		t.Errorf("wrote %d of %d bytes of %q: %v", n, len(s), s, err)
	}
	return b.String()
}

func TestWriterShowsWhatATerminalObeys(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text, zürich 東京 \u00a0\u3000 👍\n\tindented\n": "plain text, zürich 東京 \u00a0\u3000 👍\n\tindented\n",
		"\x1b]0;title\x07":             `\u001b]0;title\u0007`,
		"\x1b[2J\x1b[H":                `\u001b[2J\u001b[H`,
		"over\rwritten\b":              `over\u000dwritten\u0008`,
		"\x7f":                         `\u007f`,
		"\u009b2J":                     `\u009b2J`,
		"\x9b2J":                       `\x9b2J`,
		"\u202eevil\u2066\u200f":       `\u202eevil\u2066\u200f`,
		"line\u2028paragraph\u2029":    `line\u2028paragraph\u2029`,
		"\ufeff\u200b":                 `\ufeff\u200b`,
		"\U000e0041":                   `\udb40\udc41`,
		"e\u0301":                      "e\u0301",
		"क्षि ཧཱུྃ שָּׁ":               "क्षि ཧཱུྃ שָּׁ",
		"\ufffd is drawn, \xff is not": "\ufffd is drawn, \\xff is not",
		"a\xe2\x82":                    `a\xe2\x82`,
		"\x00":                         `\u0000`,
	} {
		if got := written(t, in); got != want {
			t.Errorf("%q is shown as %q; expected %q", in, got, want)
		}
	}
}

func TestLineStaysOneLine(t *testing.T) {
	t.Parallel()
	v := visible.New(&strings.Builder{})
	if got, want := v.Line("m1\nFAKE ROW\t\x1b[A"), `m1\nFAKE ROW\t\u001b[A`; got != want {
		t.Errorf("got %q; expected %q", got, want)
	}
	if got := v.Line("zürich"); got != "zürich" {
		t.Errorf("got %q", got)
	}
}

// Only the program's own sequences get through, and what they enclose does not.
func TestWriterPassesOwnControls(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	v := visible.New(&b)
	text := v.Line(v.Control("\x1b[31m") + "x\x1b[0m\n" + v.Control("\x1b[0m"))
	_, _ = v.Write([]byte(text + "\n"))
	if got, want := b.String(), "\x1b[31mx\\u001b[0m\\n\x1b[0m\n"; got != want {
		t.Errorf("got %q; expected %q", got, want)
	}
	stranger := visible.New(&strings.Builder{}).Control("\x1b[31m")
	if got := written(t, stranger); strings.Contains(got, "\x1b") {
		t.Errorf("the mark of another writer passed: %q", got)
	}
}

func TestWriterPassesNothingUnseen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		for _, r := range written(t, in) {
			if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q lets %q through", in, r)
			}
		}
	})
}

func TestWriterKeepsAJSONDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text")
		document, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(written(t, string(document))), &back); err != nil || back != in {
			t.Fatalf("%q came back as %q: %v", in, back, err)
		}
	})
}

func TestWriteReturnsTheErrorOfItsWriter(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	_ = w.Close()
	if n, err := visible.New(w).Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("wrote %d: %v", n, err)
	}
}
