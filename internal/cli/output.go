package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/spell"
	"github.com/ringfence/ringfence/internal/visible"
	"github.com/ringfence/ringfence/subscription"
)

// emit prints a result on stdout, as one JSON document or as text; the URL of an endpoint without its secrets.
func emit[T any](a *app, v T, text func(*report, T)) error {
	switch s := any(v).(type) {
	case *api.Subscription:
		hideSecret(s)
	case *api.SubscriptionStatus:
		hideSecret(&s.Subscription)
	case []*api.SubscriptionStatus:
		for _, d := range s {
			hideSecret(&d.Subscription)
		}
	}
	if a.global.format == "json" {
		return writeJSON(a.stdout, v, "  ")
	}
	r := a.newReport()
	text(r, v)
	_, err := io.WriteString(a.stdout, r.String())
	return err
}

// hideSecret replaces what may be a secret in the URL of an endpoint.
func hideSecret(d *api.Subscription) {
	if d.Endpoint != nil {
		e := api.Endpoint(subscription.Endpoint(*d.Endpoint).Shown())
		d.Endpoint = &e
	}
}

// writeJSON writes v at once: as one line, unless it is indented.
func writeJSON(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// show makes the body of a command that gives one order and prints what comes of it, or the known part when it failed.
func show[T any](a *app, order func(ctx context.Context, c *admin.Client, args []string) (T, error), text func(*report, T)) func(*cobra.Command, []string) error {
	return a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		v, err := order(ctx, rf.Admin(), args)
		if part := reflect.ValueOf(v); err != nil && (part.IsZero() || part.Kind() == reflect.Slice && part.Len() == 0) {
			return err
		}
		return errors.Join(err, emit(a, v, text))
	})
}

// listing is a command that lists things.
func listing[T any](a *app, short string, order func(*admin.Client, context.Context) ([]T, error), text func(*report, []T)) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   short,
		Aliases: []string{"ls"},
		RunE:    show(a, func(ctx context.Context, c *admin.Client, _ []string) ([]T, error) { return order(c, ctx) }, text),
	}
}

// newReport starts a text for stdout, with colours on a terminal.
func (a *app) newReport() *report {
	return &report{out: a.stdout, colour: a.colours(a.stdout), place: a.place}
}

// records is where records go in a form of --print: values as they are for a program, and safe for a terminal; JSON
// safe everywhere, as what reads it first (head, tee, jq) may have a terminal behind it.
func (a *app) records(form string) io.Writer {
	if form != "value" || isTerminal(a.stdout) {
		return a.stdout
	}
	return a.stdout.Exact()
}

// colours says whether w shows colours: a terminal that obeys, without NO_COLOR.
func (a *app) colours(w io.Writer) bool {
	if a.getenv("NO_COLOR") != "" {
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
	place  string // flags for commands that are advised
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

func left(s string) cell             { return cell{text: s} }
func right(s string) cell            { return cell{text: s, right: true} }
func number[N int | int64](n N) cell { return right(thousands(int64(n))) }
func styled(st style, c cell) cell   { c.style = st; return c }
func age(millis int64) cell          { return right(ageText(millis)) }
func warnIf(bad bool, c cell) cell   { return styleIf(bad, yellow, c) }
func alarmIf(bad bool, c cell) cell  { return styleIf(bad, red, c) }

func unreadableCell(why string) cell { return styled(yellow, left("can't be read: "+why)) }

func styleIf(cond bool, st style, c cell) cell {
	if cond {
		c.style = st
	}
	return c
}

func dash(s string) string { return cmp.Or(s, "-") }

// widest is how far a column is padded: a key of 32 KiB would be as many blanks in every other row.
const widest = 200

// tableOf prints a table with a row for each of a list.
func tableOf[T any](r *report, header []string, list []T, row func(T) []cell) {
	rows := make([][]cell, len(list))
	for i, v := range list {
		rows[i] = row(v)
	}
	r.table(header, rows)
}

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
func thousands(n int64) string    { return spell.Thousands(n) }
func ageText(millis int64) string { return spell.Age(millis) }

func plural[N int | int64](n N, word string) string { return spell.Plural(int64(n), word) }
