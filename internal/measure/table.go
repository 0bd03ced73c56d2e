package measure

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ringfence/ringfence/internal/spell"
)

// Report is what came of a contest, or of several.
type Report struct {
	Bench   string    `json:"bench"`
	About   string    `json:"about"` // the settings, in words
	Rows    []Row     `json:"rows,omitempty"`
	Figures []Figure  `json:"figures,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
	Results []*Report `json:"results,omitempty"` // of the contests whose figures these are
}

// Missed counts the figures that are not what is required.
func (r *Report) Missed() int {
	n := 0
	for _, f := range r.Figures {
		if !f.OK {
			n++
		}
	}
	return n
}

// Text prints a report for people.
func (r *Report) Text(w io.Writer) error {
	for _, part := range r.Results {
		if err := part.Text(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "bench %s: %s\n", r.Bench, r.About)
	if err := writeRows(w, r.Rows); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "  "+n)
	}
	err := writeFigures(w, r.Figures)
	if r.Results != nil {
		fmt.Fprintf(w, "  %d of %d figures are as promised\n", len(r.Figures)-r.Missed(), len(r.Figures))
	}
	return err
}

// writeRows prints rows for people.
func writeRows(w io.Writer, rows []Row) error {
	t := [][]string{{"", "median", "min – max", "unit", "p50 µs", "p99 µs", "max µs", "ratio"}}
	for _, x := range rows {
		ratio := ""
		switch {
		case x.To == "":
		case x.Reverse:
			ratio = fmt.Sprintf("%s: %s of it", x.To, Number(x.Ratio))
		default:
			ratio = fmt.Sprintf("%s of %s", Number(x.Ratio), x.To)
		}
		t = append(t, []string{x.Name, Number(x.Median), spread(x.Min, x.Max), x.Unit, orBlank(x.P50), orBlank(x.P99), orBlank(x.Worst), ratio})
	}
	return writeTable(w, t)
}

// writeFigures prints figures for people.
func writeFigures(w io.Writer, figures []Figure) error {
	t := [][]string{{"promised", "median", "min – max", "unit", "required", "verdict"}}
	for _, f := range figures {
		sign, verdict := "≥ ", "MISSED"
		if f.AtMost {
			sign = "≤ "
		}
		if f.OK {
			verdict = "ok"
		}
		t = append(t, []string{f.Name, Number(f.Median), spread(f.Min, f.Max), f.Unit, sign + Number(f.Need), verdict})
	}
	return writeTable(w, t)
}

// writeTable aligns columns and leaves out those that hold nothing; a table without rows is nothing.
func writeTable(w io.Writer, rows [][]string) error {
	if len(rows) == 1 {
		return nil
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows[1:] {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if width[i] > 0 {
				line.WriteString("  " + cell + strings.Repeat(" ", max(width[i], utf8.RuneCountInString(rows[0][i]))-utf8.RuneCountInString(cell)))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

func spread(least, most float64) string { return Number(least) + " – " + Number(most) }

func orBlank(v float64) string {
	if v == 0 {
		return ""
	}
	return Number(v)
}

// Number writes a number with three digits that matter, and thousands with commas.
func Number(v float64) string {
	switch {
	case v >= 1000:
		return spell.Thousands(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Many is a number of things: "1 round", "5 rounds", "3 processes".
func Many[N int | int64](n N, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return spell.Thousands(int64(n)) + " " + thing
}
