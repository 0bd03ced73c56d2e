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
// of format and direction, those that leave nothing to see (fillers, variation selectors, blanks), marks
// that have no letter to stand on or are too many for it, as they are drawn over their neighbours, and
// bytes that are no UTF-8. The form is that of a string in JSON (\u001b), so a JSON document stays the
// same document; a byte that is no UTF-8, which JSON can't hold, is \xff.
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
	out := p
	if unsafe(p) < len(p) {
		out = v.shown(string(p), true)
	}
	if _, err := v.w.Write(out); err != nil {
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
	if unsafe([]byte(s)) == len(s) && !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return string(v.shown(s, false))
}

// shown is s with what is not harmless made visible. For lines, newlines and tabs pass and our
// controls come out of their marks.
func (v *Writer) shown(s string, lines bool) []byte {
	b := make([]byte, 0, len(s)+len(s)/8)
	var room marks
	for s != "" {
		n := v.control(s)
		switch {
		case n > 0 && lines:
			b, room = append(b, s[len(v.mark):n-len(v.mark)]...), 0
		case n > 0:
			b, room = append(b, s[:n]...), 0
		default:
			var r rune
			r, n = utf8.DecodeRuneInString(s)
			b = append(b, form(r, s[:n], room.pass(r, n), lines)...)
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

// unsafe is where the first byte of p stands that may not pass as it is, or the length of p.
func unsafe(p []byte) int {
	var room marks
	for i := 0; i < len(p); {
		if c := p[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		if i > 0 && p[i-1] < utf8.RuneSelf {
			room.pass(rune(p[i-1]), 1)
		}
		r, n := utf8.DecodeRune(p[i:])
		if !room.pass(r, n) {
			return i
		}
		i += n
	}
	return len(p)
}

// mostMarks is how many marks a letter carries at most. No script needs so many.
const mostMarks = 8

// marks is how many the rune before can still carry.
type marks int

// pass tells whether a rune may be drawn behind those before it.
func (m *marks) pass(r rune, size int) bool {
	switch {
	case !harmless(r, size):
		*m = 0
		return false
	case !unicode.IsMark(r):
		*m = 0
		if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) {
			*m = mostMarks
		}
		return true
	}
	*m--
	if *m < 0 {
		*m = 0
		return false
	}
	return true
}

// harmless tells the runes that a terminal only draws, and of which there is something to see: two names
// must not look the same because one has a filler or a variation selector in it.
func harmless(r rune, size int) bool {
	return unicode.IsGraphic(r) && (r != utf8.RuneError || size > 1) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && !blank(r)
}

// blank tells the symbols and letters without a picture: of Braille, of hieroglyphs, of musical notes.
func blank(r rune) bool {
	switch r {
	case 0x2800, 0x13441, 0x13442, 0x1d159:
		return true
	}
	return false
}

// form is how a rune, which is raw, is shown.
func form(r rune, raw string, passes, lines bool) string {
	switch {
	case passes, lines && (r == '\n' || r == '\t'):
		return raw
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
