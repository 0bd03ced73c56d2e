package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/spell"
	"github.com/ringfence/ringfence/internal/visible"
)

// emit prints a result on stdout: v as one JSON document, or what text makes of it. Both show
// the same facts. The URL of an endpoint is shown without its secrets.
func (a *app) emit(v any, text func(*report)) error {
	if d, ok := v.(*api.Subscription); ok {
		v = shownSubscription(d)
	}
	var buf bytes.Buffer
	if a.global.format == "json" {
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			return err
		}
	} else {
		r := a.newReport()
		text(r)
		buf.WriteString(r.String())
	}
	_, err := a.stdout.Write(buf.Bytes())
	return err
}

// newReport starts a text for stdout, with colours on a terminal.
func (a *app) newReport() *report { return &report{out: a.stdout, colour: a.colours(a.stdout)} }

// records is where records go in a form of --print: values as they are, for a program that reads them, and
// safe for a terminal. JSON is made safe everywhere: it stays the same document, and what reads it first
// (head, tee, jq) may have a terminal behind it.
func (a *app) records(form string) io.Writer {
	if form != "value" || isTerminal(a.stdout) {
		return a.stdout
	}
	return a.stdout.Exact()
}

// colours says whether w shows colours: a terminal that obeys, without NO_COLOR.
func (a *app) colours(w io.Writer) bool {
	if v, _ := a.getenv("NO_COLOR"); v != "" {
		return false
	}
	return a.draws(w)
}

func isTerminal(stream any) bool {
	f := fileOf(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// fileOf is the file behind a stream, nil if it has none.
func fileOf(stream any) *os.File {
	if v, ok := stream.(*visible.Writer); ok {
		stream = v.Exact()
	}
	f, _ := stream.(*os.File)
	return f
}

// style is how a text stands out on a terminal: the parameters of ANSI's SGR.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// report is a text in the making for out: lines and tables.
type report struct {
	strings.Builder
	out    *visible.Writer
	colour bool
}

// line adds one line. A text in args can't make it two.
func (r *report) line(format string, args ...any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = r.out.Line(v)
		case error:
			args[i] = r.out.Line(v.Error())
		}
	}
	fmt.Fprintf(r, format+"\n", args...)
}

// paint is s in a style, when the reader shows styles.
func (r *report) paint(st style, s string) string {
	if !r.colour || st == plain {
		return s
	}
	return r.out.Control("\x1b["+string(st)+"m") + s + r.out.Control("\x1b[0m")
}

// cell is one field of a table.
type cell struct {
	text  string
	style style
	right bool
}

func left(s string) cell            { return cell{text: s} }
func right(s string) cell           { return cell{text: s, right: true} }
func number(n int64) cell           { return right(thousands(n)) }
func styled(st style, c cell) cell  { c.style = st; return c }
func age(millis int64) cell         { return right(ageText(millis)) }
func warnIf(bad bool, c cell) cell  { return styleIf(bad, yellow, c) }
func alarmIf(bad bool, c cell) cell { return styleIf(bad, red, c) }

func styleIf(cond bool, st style, c cell) cell {
	if cond {
		c.style = st
	}
	return c
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// widest is how far a column is padded. A key can be 32 KiB long: without a bound one of them would be as
// many blanks in every other row of its table. What is longer is shown whole and stands out of its column.
const widest = 200

// table prints aligned columns below a header.
func (r *report) table(header []string, rows [][]cell) {
	width := make([]int, len(header))
	for i, h := range header {
		width[i] = len(h)
	}
	for _, row := range rows {
		for i := range row {
			c := &row[i]
			c.text = r.out.Line(c.text)
			width[i] = max(width[i], min(utf8.RuneCountInString(c.text), widest))
		}
	}
	head := make([]cell, len(header))
	for i, h := range header {
		head[i] = styled(bold, cell{text: h, right: len(rows) > 0 && rows[0][i].right})
	}
	for _, row := range append([][]cell{head}, rows...) {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(c.text)))
			switch {
			case c.right:
				line.WriteString(pad + r.paint(c.style, c.text))
			case i == len(row)-1:
				line.WriteString(r.paint(c.style, c.text))
			default:
				line.WriteString(r.paint(c.style, c.text) + pad)
			}
			if i < len(row)-1 {
				line.WriteString("  ")
			}
		}
		r.line("%s", strings.TrimRight(line.String(), " "))
	}
}

// How numbers and times are shown; see spell.
func thousands(n int64) string           { return spell.Thousands(n) }
func plural(n int64, word string) string { return spell.Plural(n, word) }
func ageText(millis int64) string        { return spell.Age(millis) }
