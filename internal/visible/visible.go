// Package visible shows foreign text on a terminal without letting it act there.
//
// Names, values, hosts and the error texts of servers may hold sequences that a terminal obeys: they
// move the cursor, set its title, answer in the user's name, or turn the direction of the text. A
// [Writer] between the program and its reader makes them visible. Only a sequence that the program
// marked with [Writer.Control] passes.
package visible

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer passes text on and shows every rune that is none: controls but newline and tab, characters
// of format and direction, and bytes that are no UTF-8. The form is that of a string in JSON (\u001b), so
// a JSON document stays the same document; a byte that is no UTF-8, which JSON can't hold, is \xff.
//
// Each Write must end where a rune and a control of [Writer.Control] ends.
type Writer struct {
	w    io.Writer
	mark string // stands before and behind each control; a secret of this process

	failed atomic.Pointer[error]
}

// New returns a Writer in front of w.
func New(w io.Writer) *Writer { return &Writer{w: w, mark: "\x1b" + rand.Text()} }

// Exact is the writer behind v, for bytes that must stay as they are.
func (v *Writer) Exact() io.Writer { return v.w }

// Control marks a sequence as ours: v passes it on as it is.
func (v *Writer) Control(sequence string) string { return v.mark + sequence + v.mark }

// Write passes p on. After an error it says that nothing of p was written.
func (v *Writer) Write(p []byte) (int, error) {
	if _, err := v.w.Write(v.shown(string(p), true)); err != nil {
		v.failed.CompareAndSwap(nil, &err)
		return 0, err
	}
	return len(p), nil
}

// Err is the first error of Write, for callers after writers that did not look at it.
func (v *Writer) Err() error {
	if err := v.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Line is s within one line: newline and tab are shown too. Controls stay marked.
func (v *Writer) Line(s string) string {
	return string(v.shown(s, false))
}

// shown is s with what is not harmless made visible. For lines, newlines and tabs pass and our
// controls come out of their marks.
func (v *Writer) shown(s string, lines bool) []byte {
	b := make([]byte, 0, len(s)+len(s)/8)
	for s != "" {
		n := v.control(s)
		switch {
		case n > 0 && lines:
			b = append(b, s[len(v.mark):n-len(v.mark)]...)
		case n > 0:
			b = append(b, s[:n]...)
		default:
			var r rune
			r, n = utf8.DecodeRuneInString(s)
			b = append(b, form(r, s[:n], lines)...)
		}
		s = s[n:]
	}
	return b
}

// control is the length of the marked control that s begins with, or 0.
func (v *Writer) control(s string) int {
	inner, ok := strings.CutPrefix(s, v.mark)
	if !ok {
		return 0
	}
	n := strings.Index(inner, v.mark)
	if n < 0 {
		return 0
	}
	return n + 2*len(v.mark)
}

// form is how a rune, which is raw, is shown.
func form(r rune, raw string, lines bool) string {
	broken := r == utf8.RuneError && len(raw) == 1
	switch {
	case unicode.IsGraphic(r) && !broken, lines && (r == '\n' || r == '\t'):
		return raw
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case broken:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
